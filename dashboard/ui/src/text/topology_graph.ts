/** What there is to be drawn of a topology: nodes, and what leads from one to another. */

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
  user?: string | null
  consumers?: number
  declared_by?: { session: number; user: string; client: string } | null
  deleted_at?: number | null
}

export type NodeKind = 'exchange' | 'queue' | 'consumer' | 'group'

export interface GraphNode {
  id: string
  kind: NodeKind
  label: string
  /** Below the label: what it is. */
  about: string
  /** Of a group, how many it stands for. */
  count: number
  items: TopologyItem[]
}

export interface GraphEdge {
  from: string
  to: string
  label: string
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

/** The nodes and edges of a virtual host, or of all where none is named. */
export function graphOf(items: readonly TopologyItem[], vhost: string | null): Graph {
  const nodes = new Map<string, GraphNode>()
  const edges = new Map<string, GraphEdge>()
  const here = items.filter((item) => (vhost === null || item.vhost === vhost) && item.state !== 'deleted')
  const node = (kind: NodeKind, of: string, name: string, about = ''): GraphNode => {
    const id = nodeId(kind, of, name)
    let found = nodes.get(id)
    if (!found) nodes.set(id, (found = { id, kind, label: label(name), about, count: 1, items: [] }))
    if (about && !found.about) found.about = about
    return found
  }
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
      node('queue', item.vhost, item.name ?? '', `${type}${item.exclusive ? ', exclusive' : ''}`).items.push(item)
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
      const name = item.name || item.user || item.consumer_tag || ''
      const consumer = node('consumer', item.vhost, `#${item.session} ${name}`.trim())
      consumer.items.push(item)
      queue.items.push(item)
      edge(queue.id, consumer.id, '')
    }
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] }
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
