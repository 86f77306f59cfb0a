/** The integrated broker's objects, as the server answers them. */
import type { Table, Value } from './types'

export interface BrokerQueue {
  vhost: string
  name: string
  type: string
  durable: boolean
  exclusive: boolean
  auto_delete: boolean
  owner: string | null
  policy: string | null
  operator_policy: string | null
  effective_policy_definition: Table
  arguments: Table
  ready: number
  unacked: number
  ready_bytes: number
  memory: number
  consumers: number
  delivery_limit: number | null
  entered: number
  left: number
  counts: number[] | null
}

export interface ObjectPage<Item> {
  total: number
  filtered: number
  objects: Item[]
}

export interface Binding {
  source: string
  vhost: string
  destination: string
  destination_type: 'queue' | 'exchange'
  routing_key: string
  arguments: Table
  properties_key: string
}

export interface BrokerConsumer {
  connection: string
  channel: number
  consumer_tag: string
  user: string
  prefetch: number | null
  no_ack: boolean
  exclusive: boolean
  active: boolean
}

export interface Exchange {
  name: string
  vhost: string
  type: string
  durable: boolean
  auto_delete: boolean
  internal: boolean
  arguments: Table
  policy: string | null
  counts: [published: number, routed: number]
}

export interface Policy {
  vhost: string
  name: string
  pattern: string
  'apply-to': string
  definition: Table
  priority: number
}

export interface BrokerUser {
  name: string
  tags: string[]
  limits: Table
}

export interface Permission {
  user: string
  vhost: string
  configure: string
  write: string
  read: string
}

export interface QueueDetail {
  queue: BrokerQueue
  bindings: ObjectPage<Binding>
  consumers: ObjectPage<BrokerConsumer>
  policies: { policy: Policy | null; operator_policy: Policy | null }
}

export interface WaitingMessage {
  place: number
  exchange: string
  routing_key: string
  size: number
  properties?: Table
  body?: Value
  redacted?: boolean
}
