/** What there is to be drawn of a topology: nodes, and what leads from one to another. */
import { endsOf } from '../api/connections'
import type { Flow, FlowLists } from '../api/flows'
import type { Table } from '../api/types'
import { counted, seconds, short } from './numbers'
import { dateTime } from './times'

export interface TopologyItem {
  kind: 'exchange' | 'queue' | 'binding' | 'consumer'
  vhost: string
  state: string
  name?: string
  type?: string
  durable?: boolean
  exclusive?: boolean
  auto_delete?: boolean
  internal?: boolean
  arguments?: Record<string, unknown>
  source?: string
  destination?: string
  destination_type?: 'queue' | 'exchange'
  routing_key?: string
  queue?: string | null
  consumer_tag?: string
  session?: number
  connection?: string
  prefetch?: number
  no_ack?: boolean
  user?: string | null
  consumers?: number
  declared_by?: { session: number; user: string; client: string } | null
  declared_at?: number | null
  deleted_at?: number | null
}

/** A client is a publisher at the left end and a consumer at the right one; a route is an exchange with a key. */
export type NodeKind = 'publisher' | 'exchange' | 'queue' | 'consumer' | 'route' | 'group'

export interface GraphNode {
  id: string
  kind: NodeKind
  label: string
  /** Below the label: what it is. */
  about: string
  /** Of a group, how many it stands for. */
  count: number
  items: TopologyItem[]
  vhost: string
  /** The name of which it is, as its page has it; of a client also its user. */
  name: string
  user: string
  flows: Flow[]
}

export interface GraphEdge {
  from: string
  to: string
  label: string
  isBad?: boolean
}

export interface Graph {
  nodes: GraphNode[]
  edges: GraphEdge[]
}

export function nodeId(kind: string, vhost: string, name: string): string {
  return `${kind}\0${vhost}\0${name}`
}

/** From so many nodes on, what hangs on one exchange alone is folded. */
export const FOLD_FROM = 120
/** What is folded has so many members at least. */
export const FOLD_LEAST = 6

function label(name: string): string {
  return name === '' ? '(default)' : name
}

/** The client of a consumer: by the name that it gave itself, or else its host. */
export function consumerName(item: TopologyItem): string {
  return item.name || endsOf(item.connection ?? '')[0].replace(/:\d+$/, '') || item.user || `#${item.session}`
}

/** What a binding needs: its key, and its arguments. */
export function bindingText(item: TopologyItem): string[] {
  const needs = Object.keys(item.arguments ?? {}).length ? [JSON.stringify(item.arguments)] : []
  return item.routing_key ? [item.routing_key, ...needs] : needs
}

/** What is known of an object, as a table. */
export function tableOf(item: TopologyItem): Table {
  const { kind, ...rest } = item
  const shown = Object.entries(rest)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [name, name.endsWith('_at') && typeof value === 'number' ? dateTime(value) : value])
  return { what: kind, ...Object.fromEntries(shown) } as Table
}

/** How fast, what went wrong, and how long it took. */
export function flowText(flows: readonly Flow[]): string {
  const rate = flows.reduce((sum, each) => sum + each.rate, 0)
  const errors = flows.reduce((sum, each) => sum + each.errors, 0)
  const p99 = Math.max(...flows.map((each) => each.p99 ?? 0))
  // Deliveries show the time since the publish, which says more than that until the acknowledgement.
  const transit = Math.max(...flows.map((each) => (each.queue === null ? 0 : (each.transit_p99 ?? 0))))
  const late = transit ? `arrives ≤ ${seconds(transit)}` : p99 ? `p99 ≤ ${seconds(p99)}` : ''
  return [`${short(rate)}/s`, errors ? `✕ ${short(errors)}` : '', late].filter(Boolean).join('  ')
}

/** Whatever is drawn, made once for each name. */
class Nodes {
  readonly nodes = new Map<string, GraphNode>()

  of(kind: NodeKind, vhost: string, name: string, about = '', user = ''): GraphNode {
    const id = nodeId(kind, vhost, user ? `${name}\0${user}` : name)
    let found = this.nodes.get(id)
    if (!found) this.nodes.set(id, (found = { id, kind, label: label(name), about, count: 1, items: [], vhost, name, user, flows: [] }))
    if (about && !found.about) found.about = about
    return found
  }
}

/** Who sends what to whom: clients at both ends, between them exchanges with their keys. */
export function serviceMap(lists: FlowLists | null, vhost: string | null): Graph {
  const nodes = new Nodes()
  const edges: GraphEdge[] = []
  const between = new Map<string, { edge: GraphEdge; flows: Flow[] }>()
  const add = (flow: Flow, isPublish: boolean) => {
    if (vhost !== null && flow.vhost !== vhost) return
    const client = nodes.of(isPublish ? 'publisher' : 'consumer', flow.vhost, flow.client, flow.user, flow.user)
    const key = flow.routing_key ?? '(other keys)'
    const id = `${flow.exchange}\0${key}`
    const route = nodes.of('route', flow.vhost, id, key)
    route.label = label(flow.exchange)
    route.name = flow.exchange
    client.flows.push(flow)
    route.flows.push(flow)
    const [from, to] = isPublish ? [client, route] : [route, client]
    const place = `${from.id}\x01${to.id}`
    let found = between.get(place)
    if (!found) {
      found = { edge: { from: from.id, to: to.id, label: '' }, flows: [] }
      between.set(place, found)
      edges.push(found.edge)
    }
    found.flows.push(flow)
    found.edge.label = flowText(found.flows)
    found.edge.isBad ||= flow.errors > 0
  }
  for (const each of lists?.published ?? []) add(each, true)
  for (const each of lists?.delivered ?? []) add(each, false)
  return { nodes: [...nodes.nodes.values()], edges }
}

/** The nodes and edges of a virtual host, or of all where none is named; of a capture, with what was deleted. */
export function graphOf(items: readonly TopologyItem[], vhost: string | null, flows: FlowLists | null = null, hasDeleted = false): Graph {
  const nodes = new Nodes()
  const edges = new Map<string, GraphEdge>()
  const here = items.filter((item) => (vhost === null || item.vhost === vhost) && (hasDeleted || item.state !== 'deleted'))
  const node = nodes.of.bind(nodes)
  const edge = (from: string, to: string, text: string) => {
    const key = `${from}\x01${to}`
    const found = edges.get(key)
    if (!found) edges.set(key, { from, to, label: text })
    else if (text && !found.label.split(', ').includes(text)) {
      found.label = found.label.length > 40 ? found.label.replace(/(, …)?$/, ', …') : [found.label, text].filter(Boolean).join(', ')
    }
  }
  for (const item of here) {
    if (item.kind === 'exchange') node('exchange', item.vhost, item.name ?? '', item.type ?? '').items.push(item)
    else if (item.kind === 'queue') {
      const type = String(item.arguments?.['x-queue-type'] ?? 'classic')
      const about = [type, item.exclusive ? 'exclusive' : '', item.consumers === 0 ? 'no consumer' : '']
      node('queue', item.vhost, item.name ?? '', about.filter(Boolean).join(', ')).items.push(item)
    }
  }
  for (const item of here) {
    if (item.kind === 'binding') {
      const from = node('exchange', item.vhost, item.source ?? '')
      const to = node(item.destination_type === 'exchange' ? 'exchange' : 'queue', item.vhost, item.destination ?? '')
      edge(from.id, to.id, item.routing_key ?? '')
      from.items.push(item)
      to.items.push(item)
    } else if (item.kind === 'consumer') {
      const queue = node('queue', item.vhost, item.queue ?? '(unknown)')
      const consumer = node('consumer', item.vhost, consumerName(item), '', item.user ?? '')
      consumer.items.push(item)
      queue.items.push(item)
      edge(queue.id, consumer.id, '')
    }
  }
  for (const flow of flows?.published ?? []) {
    if (vhost !== null && flow.vhost !== vhost) continue
    const publisher = node('publisher', flow.vhost, flow.client, flow.user, flow.user)
    const exchange = node('exchange', flow.vhost, flow.exchange)
    publisher.flows.push(flow)
    exchange.flows.push(flow)
    edge(publisher.id, exchange.id, flow.routing_key ?? '…')
    // The default exchange has no bindings to draw: its keys are names of queues.
    const queue = flow.exchange === '' && flow.routing_key ? nodes.nodes.get(nodeId('queue', flow.vhost, flow.routing_key)) : undefined
    if (queue) edge(exchange.id, queue.id, '')
  }
  for (const flow of flows?.delivered ?? []) {
    if ((vhost !== null && flow.vhost !== vhost) || !flow.queue) continue
    const queue = node('queue', flow.vhost, flow.queue)
    const consumer = node('consumer', flow.vhost, flow.client, '', flow.user)
    queue.flows.push(flow)
    consumer.flows.push(flow)
    edge(queue.id, consumer.id, '')
  }
  for (const each of nodes.nodes.values()) {
    if (each.kind !== 'consumer') continue
    const sessions = new Set(each.items.map((item) => item.session)).size
    each.about = [each.user, sessions > 1 ? counted(sessions, 'connection') : ''].filter(Boolean).join(', ')
  }
  return { nodes: [...nodes.nodes.values()], edges: [...edges.values()] }
}

/** Whether a graph is folded where it is large, or always, or never. */
export type Folding = 'large' | 'always' | 'never'

/**
 * Fold what hangs on one exchange alone into one node, where there are many: its queues, and what consumes these.
 * `open` are the ids of groups that the reader has opened.
 */
export function folded(graph: Graph, open: ReadonlySet<string>, folding: Folding = 'large'): Graph {
  if (folding === 'never' || (folding === 'large' && graph.nodes.length < FOLD_FROM)) return graph
  const into = new Map<string, Set<string>>()
  const out = new Map<string, string[]>()
  for (const { from, to } of graph.edges) {
    into.set(to, (into.get(to) ?? new Set()).add(from))
    out.set(from, [...(out.get(from) ?? []), to])
  }
  const byId = new Map(graph.nodes.map((each) => [each.id, each]))
  const place = new Map<string, string>()
  const groups = new Map<string, GraphNode>()
  for (const exchange of graph.nodes) {
    if (exchange.kind !== 'exchange') continue
    const own = (out.get(exchange.id) ?? []).filter((id) => byId.get(id)?.kind === 'queue' && into.get(id)?.size === 1)
    const id = `group\0${exchange.id}`
    if (own.length < FOLD_LEAST || open.has(id)) continue
    const members = new Set(own)
    for (const queue of own) {
      for (const consumer of out.get(queue) ?? []) {
        if ([...(into.get(consumer) ?? [])].every((each) => members.has(each))) members.add(consumer)
      }
    }
    const consumers = members.size - own.length
    groups.set(id, {
      id,
      kind: 'group',
      label: `${own.length} queues`,
      about: consumers ? `${consumers} consumers` : '',
      count: own.length,
      items: own.flatMap((each) => byId.get(each)!.items),
      vhost: exchange.vhost,
      name: '',
      user: '',
      flows: [],
    })
    for (const member of members) place.set(member, id)
  }
  const nodes = [...graph.nodes.filter((each) => !place.has(each.id)), ...groups.values()]
  const edges = new Map<string, GraphEdge>()
  for (const { from, to, label } of graph.edges) {
    const [a, b] = [place.get(from) ?? from, place.get(to) ?? to]
    if (a === b) continue
    const key = `${a}\x01${b}`
    if (!edges.has(key)) edges.set(key, { from: a, to: b, label: a === from && b === to ? label : '' })
  }
  return { nodes, edges: [...edges.values()] }
}

/** What matches a search, with all that leads there and from there. */
export function around(graph: Graph, words: string): Graph {
  const wanted = words.trim().toLowerCase().split(/\s+/).filter(Boolean)
  if (wanted.length === 0) return graph
  const hits = graph.nodes.filter((each) => {
    const text = `${each.label} ${each.about} ${each.kind}`.toLowerCase()
    return wanted.every((word) => text.includes(word))
  })
  const kept = new Set(hits.map((each) => each.id))
  const spread = (forward: boolean) => {
    const next = new Map<string, string[]>()
    for (const { from, to } of graph.edges) {
      const [a, b] = forward ? [from, to] : [to, from]
      next.set(a, [...(next.get(a) ?? []), b])
    }
    const waiting = hits.map((each) => each.id)
    const seen = new Set(waiting)
    while (waiting.length) {
      for (const each of next.get(waiting.pop()!) ?? []) {
        if (seen.has(each)) continue
        seen.add(each)
        kept.add(each)
        waiting.push(each)
      }
    }
  }
  spread(true)
  spread(false)
  return {
    nodes: graph.nodes.filter((each) => kept.has(each.id)),
    edges: graph.edges.filter((each) => kept.has(each.from) && kept.has(each.to)),
  }
}
