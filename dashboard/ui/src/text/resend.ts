import type { Table } from '../api/types'

/** A message as it can be published again, in the words of 0-9-1. */
export interface Publish {
  exchange: string
  routing_key: string
  properties: Table
  /** Null where it is not text, or not all of it is kept. */
  body: string | null
  size: number
  kept: number
  vhost: string
  /** That of the message, which can be sent as one of 0-9-1, too. */
  protocol: '0-9-1' | '0-10'
}

/** Only what was changed. Throws where the properties are not a JSON object. */
export function resendEdit(before: Publish, exchange: string, routingKey: string, properties: string, body: string): Table {
  const edit: Table = {}
  const fields: Table = {}
  if (exchange !== before.exchange) fields.exchange = exchange
  if (routingKey !== before.routing_key) fields.routing_key = routingKey
  if (Object.keys(fields).length) edit.fields = fields
  const wanted = JSON.parse(properties || '{}') as Table
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) throw new Error('give an object')
  const { headers: ownHeaders, ...own } = before.properties
  const { headers: newHeaders, ...others } = wanted
  const changed = difference(own, others)
  if (Object.keys(changed).length) edit.properties = changed
  const headers = difference((ownHeaders ?? {}) as Table, (newHeaders ?? {}) as Table)
  if (Object.keys(headers).length) edit.headers = headers
  if (before.body === null ? body !== '' : body !== before.body) edit.body = body
  return edit
}

function difference(before: Table, after: Table): Table {
  const changed: Table = {}
  for (const [name, value] of Object.entries(after)) {
    if (JSON.stringify(before[name]) !== JSON.stringify(value)) changed[name] = value
  }
  for (const name of Object.keys(before)) if (!(name in after)) changed[name] = null
  return changed
}

/** The URL of a broker with these credentials. */
export function targetUrl(address: string, user: string, password: string, vhost: string): string {
  const [, scheme = 'amqp', place = ''] = /^(?:(amqps?):\/\/)?(.*)$/.exec(address.trim()) ?? []
  return `${scheme}://${encodeURIComponent(user)}:${encodeURIComponent(password)}@${place.replace(/\/+$/, '')}/${encodeURIComponent(vhost)}`
}
