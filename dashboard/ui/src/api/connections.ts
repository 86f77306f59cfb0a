import type { SeenError } from './flows'
import type { Channel, Connection, Consumer, FindingRow, Table } from './types'

/** What a capture, or the ring, knows of a connection beyond what the proxy says. */
export interface Ended {
  by?: string | null
  code?: number
  text?: string
  method?: string | null
  cause?: Table | null
  ts_ns?: number
}

/** A connection, as the API has it: what the proxy says of it, and in `seen` what its frames showed. */
export interface KnownConnection extends Connection {
  seen?: SeenConnection | null
  is_open?: boolean
  channels_list?: Channel[] | null
  consumers_list?: Consumer[] | null
  errors?: SeenError[]
  findings?: FindingRow[]
}

export interface SeenConnection extends Connection {
  stream?: number
  since_ns?: number
  last_ns?: number
  first_seq?: number
  frames?: number
  handshake?: Table | null
  is_open?: boolean
  is_joined?: boolean
  is_blocked?: boolean
  end?: Ended | null
  ended?: string | null
}

/** A connection as it is shown, wherever that is known from. */
export interface ShownConnection {
  number: number
  connection: string
  client: string
  server: string
  isOpen: boolean
  state: string
  user: string
  vhost: string
  protocol: string
  product: string
  /** The address of the broker, or of the member of an upstream, that serves it. */
  upstream: string
  name: string
  /** The name, or else the host. */
  clientName: string
  channels: number | null
  consumers: number | null
  fromClient: number | null
  fromServer: number | null
  since: number | null
  end: Ended | null
  ended: string
  raw: SeenConnection
}

function text(value: unknown): string {
  return value === null || value === undefined ? '' : String(value)
}

/** Both ends in a connection's name: the client's first. */
export function endsOf(connection: string): [string, string] {
  const found = /^(.*:\d+)-(.*:\d+)$/.exec(connection)
  return found ? [found[1]!, found[2]!] : [connection, '']
}

export function shownConnection(known: KnownConnection): ShownConnection {
  const { seen, ...said } = known
  // What the proxy says is newer than what its frames showed.
  const raw: SeenConnection = { ...seen, ...said }
  const handshake = raw.handshake ?? {}
  const properties = (handshake.client_properties ?? {}) as Table
  const [client, server] = endsOf(raw.connection)
  const isOpen = raw.is_open ?? (raw.ended === undefined || raw.ended === null)
  const state = isOpen ? (raw.state ?? 'open') : 'closed'
  return {
    number: raw.session ?? raw.stream ?? 0,
    connection: raw.connection,
    client,
    server: text(raw.upstream) || server,
    isOpen,
    state: raw.blocked || raw.is_blocked ? `${state}, blocked` : state,
    user: text(raw.user ?? handshake.user),
    vhost: text(raw.vhost ?? handshake.virtual_host),
    protocol: text(raw.protocol),
    upstream: text(raw.upstream),
    product: [raw.product ?? properties.product, raw.product_version ?? properties.version].filter(Boolean).join(' '),
    name: text(raw.name ?? properties.connection_name),
    clientName: text(raw.name ?? properties.connection_name) || client.replace(/:\d+$/, ''),
    channels: raw.channels ?? null,
    consumers: raw.consumers ?? null,
    fromClient: raw.bytes?.client ?? null,
    fromServer: raw.bytes?.server ?? null,
    since: raw.connected_at ?? (raw.since_ns === undefined ? null : raw.since_ns / 1e9),
    end: raw.end ?? null,
    ended: text(raw.ended),
    raw,
  }
}

/** How a connection ended, and who ended it. */
export function endText(shown: ShownConnection): string {
  const { end } = shown
  if (!end) return shown.ended
  const who = end.by === 'client' ? 'by the client' : end.by === 'server' ? 'by the broker' : end.by === 'proxy' ? 'by the proxy' : 'by neither side'
  const why = [end.code, end.text].filter(Boolean).join(' ')
  return `closed ${who}${why ? `: ${why}` : ''}${end.method ? `, for ${end.method}` : ''}`
}
