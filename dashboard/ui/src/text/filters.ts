import type { Value } from '../api/types'

/** A value as CEL writes it. */
function literal(value: string | number | boolean): string {
  return JSON.stringify(value)
}

function entry(table: string, name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? `${table}.${name}` : `${table}[${JSON.stringify(name)}]`
}

/** Fields of methods that the filter language knows by their own names. */
const OWN = new Set(['exchange', 'routing_key', 'queue', 'consumer_tag', 'destination'])

/** Properties that it knows: 0-10 has others, too. */
const PROPERTIES = new Set([
  ...['content_type', 'content_encoding', 'headers', 'delivery_mode', 'priority', 'correlation_id', 'reply_to'],
  ...['expiration', 'message_id', 'timestamp', 'type', 'user_id', 'app_id', 'cluster_id'],
])

/** The name in the filter language of a place in a record; null where it has none. */
export function filterName(path: readonly string[]): string | null {
  const [first, second, ...rest] = path
  if (first === undefined) return null
  if (second === undefined) {
    switch (first) {
      case 'from':
        return 'sender'
      case 'channel':
        return 'channel.number'
      case 'method':
      case 'size':
      case 'user':
      case 'vhost':
      case 'exchange':
      case 'routing_key':
      case 'queue':
      case 'consumer_tag':
        return first
      default:
        return null
    }
  }
  if (first === 'arguments') {
    if (second === 'body_size') return 'size'
    if (second === 'arguments' && rest.length) return rest.reduce(entry, 'arguments')
    if (OWN.has(second) && rest.length === 0) return second
    return [second, ...rest].reduce(entry, 'fields')
  }
  if (first === 'properties') {
    if ((second === 'headers' || second === 'application_headers') && rest.length) return rest.reduce(entry, 'headers')
    if (second === 'routing_key') return second
    return PROPERTIES.has(second) ? [second, ...rest].reduce(entry, 'properties') : null
  }
  if (first === 'headers') return [second, ...rest].reduce(entry, 'headers')
  return null
}

/** The filter for what has this value in this place; null where no filter can say that. */
export function filterFor(path: readonly string[], value: Value, differs = false): string | null {
  const operator = differs ? '!=' : '=='
  if (path[0] === 'connection' && path.length === 1 && typeof value === 'string') {
    return connectionFilter(value, differs)
  }
  if (path[0] === 'tags' && typeof value === 'string') {
    return differs ? `!(${literal(value)} in tags)` : `${literal(value)} in tags`
  }
  if (value === null || typeof value === 'object') return null
  const name = filterName(path)
  return name === null ? null : `${name} ${operator} ${literal(value)}`
}

/** What passes on the connection of this name, whose client's address comes first: `10.0.0.7:4711-10.0.0.1:5673`. */
export function connectionFilter(connection: string, differs = false): string | null {
  const found = /^\[?(.+?)\]?:(\d+)-/.exec(connection)
  if (!found) return null
  const both = `client.address == ${literal(found[1]!)} && client.port == ${found[2]}`
  return differs ? `!(${both})` : both
}

/** The filter for what passes through an exchange or a queue, or concerns a client or a user. */
export function subjectFilter(kind: 'client' | 'user' | 'exchange' | 'queue', name: string): string | null {
  switch (kind) {
    case 'client':
      // Without a name of its own, it goes by its address.
      return name ? `client.connection_name == ${literal(name)} || client.address == ${literal(name)}` : null
    case 'user':
      return name ? `user == ${literal(name)}` : null
    case 'exchange':
      return `exchange == ${literal(name)}`
    case 'queue':
      return `queue == ${literal(name)} || (exchange == "" && routing_key == ${literal(name)})`
  }
}

/** Filters for what the charts count: of 0-10, a transfer is a publish or a delivery, by its sender. */
export const COUNTED = {
  published: "method == 'basic.publish' || (method == 'message.transfer' && sender == 'client')",
  delivered: "method == 'basic.deliver' || method == 'basic.get-ok' || (method == 'message.transfer' && sender == 'server')",
  confirmed: "sender == 'server' && (method == 'basic.ack' || method == 'session.completed')",
  acked: "sender == 'client' && (method == 'basic.ack' || method == 'message.accept')",
  nacked: "method == 'basic.nack' || method == 'message.reject'",
  returned: "method == 'basic.return'",
  rejected: "sender == 'client' && (method == 'basic.reject' || method == 'basic.nack' || method == 'message.reject')",
  errors: "(method == 'channel.close' || method == 'connection.close') && fields.reply_code >= 300",
  opened: "method == 'connection.open-ok' || method == 'connection.close' || method == 'channel.open-ok' || method == 'channel.close'",
} as const

/** Both filters at once. */
export function both(one: string, other: string): string {
  const first = one.trim()
  if (!first) return other
  if (first === other || first.split(' && ').includes(other)) return first
  return `${first.includes('||') ? `(${first})` : first} && ${other}`
}
