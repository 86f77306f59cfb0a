/** The answer `dependencies` as a graph: publishers, exchanges with their keys, queues, consumers. */
import type { AnswerTable, AnswerValue } from '../api/analytics'
import { seconds, short } from './numbers'
import { nodeId, type Graph, type GraphEdge, type GraphNode, type NodeKind } from './topology_graph'

interface Passed {
  messages: number
  errors: number
  late: number
}

function edgeText({ messages, errors, late }: Passed): string {
  return [short(messages), errors ? `✕ ${short(errors)}` : '', late ? `p99 ${seconds(late / 1e9)}` : ''].filter(Boolean).join('  ')
}

export function dependencyMap({ columns, rows }: AnswerTable): Graph {
  const places = new Map(columns.map((each, place) => [each.name, place]))
  const nodes = new Map<string, GraphNode>()
  const passed = new Map<string, { edge: GraphEdge; sum: Passed }>()

  function node(kind: NodeKind, vhost: string, name: string, label: string, about: string): string {
    const id = nodeId(kind, vhost, `${name}\0${about}`)
    if (!nodes.has(id)) nodes.set(id, { id, kind, label, about, count: 1, items: [], vhost, name, user: '', flows: [] })
    return id
  }

  /** Add to an edge; with `isWhole` the messages are those of the edge, of which several rows tell. */
  function lead(from: string, to: string, messages: number, errors: number, late: number, isWhole = false): void {
    const key = `${from}\x01${to}`
    let found = passed.get(key)
    if (!found) passed.set(key, (found = { edge: { from, to, label: '' }, sum: { messages: 0, errors: 0, late: 0 } }))
    const { edge, sum } = found
    sum.messages = isWhole ? messages : sum.messages + messages
    sum.errors = isWhole ? errors : sum.errors + errors
    sum.late = Math.max(sum.late, late)
    edge.label = edgeText(sum)
    edge.isBad = sum.errors > 0
  }

  for (const row of rows) {
    const value = (name: string): AnswerValue => row[places.get(name) ?? -1] ?? null
    const text = (name: string) => (value(name) === null ? '' : String(value(name)))
    const amount = (name: string) => Number(value(name) ?? 0)
    const vhost = text('virtual_host')
    const exchange = text('exchange')
    const key = text('routing_key')
    const route = node('route', vhost, exchange, exchange || '(default)', key)
    if (value('published') !== null) {
      const client = text('publisher_client') || text('publisher')
      const publisher = node('publisher', vhost, client, client || '(unknown)', text('publisher'))
      lead(publisher, route, amount('published'), amount('failed'), 0, true)
    }
    if (value('queue') === null && value('consumer') === null) continue
    const queue = node('queue', vhost, text('queue'), text('queue') || '(unknown)', '')
    lead(route, queue, amount('delivered'), 0, amount('p99_ns'))
    const client = text('consumer_client') || text('consumer')
    const consumer = node('consumer', vhost, client, client || '(unknown)', text('consumer'))
    lead(queue, consumer, amount('delivered'), amount('refused'), 0)
  }
  return { nodes: [...nodes.values()], edges: [...passed.values()].map((each) => each.edge) }
}
