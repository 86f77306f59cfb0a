/** What the server answers, as docs/dashboard.md and /api/docs describe it. */

export interface Source {
  id: number
  name: string
  kind: 'proxy' | 'capture'
  state: 'connecting' | 'live' | 'retrying' | 'ended'
  version?: string | null
  since?: number | null
  read_only?: boolean
  can?: string[]
  /** Where clients of the proxy connect. */
  listeners?: string[]
  /** More passes than can be shown: connections shown at the same time, of those with traffic. */
  sample?: { shown: number; of: number } | null
  /** Why it is not live, where it is not. */
  reason?: string
  /** How often the proxy has been started anew since. */
  restarts?: number
}

export type Table = { [key: string]: Value }
export type Value = null | boolean | number | string | Value[] | Table

export type Peer = 'client' | 'server'

export interface FrameRow {
  seq: number
  ts_ns: number
  stream: number
  connection: string
  from: Peer
  protocol?: string
  channel?: number
  type: string
  method?: string
  arguments?: Table
  properties?: Table
  size?: number
  /** Of 0-10: the place of a frame in its segment and its command, and the id of the command. */
  flags?: string
  command_id?: number
  body?: Value
  code?: number
  reason?: string
  offset?: number
  lost?: number
  /** Of a gap: how many frames. */
  count?: number
  rules?: string[]
  tags?: string[]
  verdict?: string
  leg?: string
  session?: number
}

export interface Field {
  name: string
  value: Value
  start: number
  end: number
  children?: Field[]
  /** The filter that finds all that have this value here. */
  filter?: string | null
}

/** A command of 0-10 as rules see it. */
export interface RuleView {
  method: string
  arguments: Table
}

export interface FrameDetail {
  record: FrameRow
  view?: RuleView | null
  /** base64 */
  bytes: string
  fields: Field[] | Field
}

export interface MessageRow {
  seq: number
  /** The frames of its command, and of its outcome. */
  frame?: number | null
  until_frame?: number | null
  ts_ns: number
  stream: number
  connection: string
  from?: Peer
  channel?: number
  type: string
  outcome: string
  seconds?: number
  number?: number
  confirm_tag?: number
  delivery_tag?: number
  multiple?: boolean
  consumer_tag?: string
  queue?: string
  exchange?: string
  routing_key?: string
  mandatory?: boolean
  redelivered?: boolean
  requeue?: boolean
  size?: number
  properties?: Table
  body?: Value
  method?: string
  arguments?: Table
  reply?: string
  reply_arguments?: Table
  code?: number
  reason?: string
  /** Of a gap: how many frames. */
  count?: number
  rules?: string[]
  tags?: string[]
  verdict?: string
}

/** The publish of a message, as one of its connections saw it. */
export interface LifePublish {
  ts_ns: number
  stream: number
  connection?: Value
  channel: number
  number: number
  exchange: Value
  routing_key: Value
  message_id?: Value
  size?: number
  returned?: boolean
  outcome?: string
  seconds?: number
}

/** A delivery of a message; it may be of one of `among` alike ones unless it is `sure`. */
export interface LifeDelivery {
  ts_ns: number
  stream: number
  connection?: Value
  channel: number
  delivery_tag?: number
  queue?: Value
  redelivered?: boolean
  died_in?: Value
  died_of?: string
  sure?: boolean
  among?: number
  transit_seconds?: number
  outcome?: string
  requeue?: boolean
  seconds?: number
}

/** A message from its publish to its last delivery, on all connections. */
export interface Life {
  life: number
  linked_by: 'message_id' | 'content'
  publish?: LifePublish
  deliveries?: LifeDelivery[]
  /** Of more than 256 deliveries, how many are missing after the first 128. */
  left_out?: number
  request?: number
  replies?: number[]
}

export type Severity = 'error' | 'warning' | 'info'

export interface FindingRow {
  seq: number
  ts_ns: number
  stream: number
  connection: string
  channel?: number
  kind: string
  severity: Severity
  text: string
  count?: number
  /** Frames, and of a single finding the ones that begin their commands. */
  evidence?: { from: Peer; number: number; stream?: number; seq?: number; command?: FrameRow }[]
  why: string
  remedy: string
  frame?: number | null
}

/** A use of RabbitMQ that a later version refuses, takes differently, or has deprecated. */
export interface Use {
  kind: string
  level: 'breaks' | 'changes' | 'deprecated'
  use: string
  /** Its product and version. */
  client?: string
  user?: string
  times?: number
  effect: string
  why: string
  remedy: string
}

export interface Readiness {
  target: string
  is_ready: boolean
  verdict: string
  uses: Use[]
  /** Of the proxy, as TOML, that bridge the uses. */
  rules: string
}

export interface Connection {
  session: number
  connection: string
  connected_at?: number | null
  protocol?: string | null
  state: string
  blocked?: boolean
  user?: string | null
  vhost?: string | null
  mechanism?: string | null
  tls?: boolean
  tls_subject?: string
  product?: string | null
  product_version?: string | null
  platform?: string | null
  name?: string | null
  upstream?: string | null
  channel_max?: number
  frame_max?: number
  heartbeat?: number
  channels?: number
  paused_channels?: number[]
  consumers?: number
  bytes?: { client: number; server: number }
  [more: string]: unknown
}

export interface Channel {
  session: number
  connection: string
  channel: number
  /** Of 0-10, where a session is shown as the channel that it is on. */
  session_name?: string
  state: string
  mode: string
  prefetch: number
  global_prefetch: number
  consumers: number
  unacked: number | null
  unconfirmed: number | null
  flow?: { client: boolean; server: boolean }
  messages?: { client: number; server: number }
  open_content?: { client: string | null; server: string | null }
}

export interface Consumer {
  channel: number
  consumer_tag: string
  queue: string | null
  no_ack: boolean
  exclusive?: boolean | null
  prefetch?: number | null
  vhost?: string
}

export interface Rule {
  name: string
  action: string
  mode: string
  hits: number
  shadow_hits: number
  errors: number
  verdicts?: { [verdict: string]: number }
  last_failure?: string | null
  /** Of a temporary rule: when it ends, in seconds since 1970. */
  ends_at?: number | null
}

export interface Held {
  session: number
  number: number
  connection: string
  rule: string
  since: number
  until: number
  on_timeout: string
  will: string
  from: Peer
  channel: number
  method: string
  arguments?: Table
  properties?: Table
  size?: number
  body?: Value
}
