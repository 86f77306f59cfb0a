import { expect, test } from 'vitest'
import { changesBetween, rungsOf } from '../src/text/ladders'
import { rateOf } from '../src/text/message_rates'
import { around, folded, graphOf, type TopologyItem } from '../src/text/topology_graph'

function exchange(name: string): TopologyItem {
  return { kind: 'exchange', vhost: '/', state: 'declared', name, type: 'topic' }
}

function queue(name: string): TopologyItem {
  return { kind: 'queue', vhost: '/', state: 'declared', name }
}

function binding(source: string, destination: string, routing_key = ''): TopologyItem {
  return { kind: 'binding', vhost: '/', state: 'declared', source, destination, destination_type: 'queue', routing_key }
}

const many = [exchange('a'), ...Array.from({ length: 20 }, (_, index) => [queue(`q${index}`), binding('a', `q${index}`)]).flat()]

test('bindings of the same two are one edge', () => {
  const graph = graphOf([exchange('a'), queue('q'), binding('a', 'q', 'x'), binding('a', 'q', 'y'), binding('a', 'q', 'x')], null)
  expect(graph.nodes.map((each) => each.label)).toEqual(['a', 'q'])
  expect(graph.edges.map((each) => each.label)).toEqual(['x, y'])
})

test('what was deleted, or is of another virtual host, is not drawn', () => {
  const items = [queue('a'), { ...queue('b'), state: 'deleted' }, { ...queue('c'), vhost: 'other' }]
  expect(graphOf(items, '/').nodes.map((each) => each.label)).toEqual(['a'])
})

test('consumers hang on their queues', () => {
  const consumer: TopologyItem = { kind: 'consumer', vhost: '/', state: 'declared', queue: 'q', consumer_tag: 't', session: 3, user: 'guest' }
  const graph = graphOf([queue('q'), consumer], null)
  expect(graph.nodes.map((each) => each.label)).toEqual(['q', '#3 guest'])
  expect(graph.edges).toHaveLength(1)
})

test('queues of one exchange alone are folded, until they are opened', () => {
  const graph = graphOf([...many, exchange('b'), binding('b', 'q0')], null)
  const closed = folded(graph, new Set(), 'always')
  expect(closed.nodes.map((each) => each.label).sort()).toEqual(['19 queues', 'a', 'b', 'q0'])
  expect(closed.edges).toHaveLength(3)
  const group = closed.nodes.find((each) => each.kind === 'group')!
  expect(folded(graph, new Set([group.id]), 'always').nodes).toHaveLength(graph.nodes.length)
  expect(folded(graph, new Set())).toBe(graph)
  expect(folded(graph, new Set(), 'never')).toBe(graph)
})

test('a search shows what leads to what is found, and from it', () => {
  const graph = graphOf([...many, queue('alone')], null)
  expect(around(graph, 'q7').nodes.map((each) => each.label)).toEqual(['a', 'q7'])
  expect(around(graph, 'nothing').nodes).toEqual([])
  expect(around(graph, ' ')).toBe(graph)
})

test('500 queues are folded into what can be read', () => {
  const items = Array.from({ length: 10 }, (_, each) => [
    exchange(`e${each}`),
    ...Array.from({ length: 50 }, (_, index) => [queue(`q${each}.${index}`), binding(`e${each}`, `q${each}.${index}`)]).flat(),
  ]).flat()
  expect(graphOf(items, null).nodes).toHaveLength(510)
  expect(folded(graphOf(items, null), new Set()).nodes).toHaveLength(20)
})

test('a rewritten command shows what it was', () => {
  expect(changesBetween({ routing_key: 'a', x: 1 }, { routing_key: 'b', x: 1 })).toEqual([{ name: 'routing_key', before: 'a', after: 'b' }])
  const row = { number: 1, ts_ns: 1, last_ts_ns: 1, channel: 1, kind: 'command', title: 'basic.publish', count: 1 }
  const lanes = ['client', 'proxy', 'broker']
  const items = [
    { ...row, from: 'client', to: 'proxy', arguments: { routing_key: 'a' } },
    { ...row, from: 'proxy', to: 'broker', arguments: { routing_key: 'b' } },
    { times: 3, rows: [{ ...row, from: 'client', to: 'broker' }] },
  ]
  const rungs = rungsOf({ stream: 0, connection: '', items }, lanes)
  expect(rungs.map((each) => each.changes.length)).toEqual([0, 1, 0])
  expect(rungs.map((each) => each.times)).toEqual([0, 0, 3])
})

test('rates are of exchanges and queues, whatever these are called', () => {
  const rates = { published: { '(default)': 0.5 }, delivered: { q: 1 }, seconds: 2 }
  expect([rateOf(rates, 'exchange', '(default)'), rateOf(rates, 'queue', 'q')]).toEqual([0.5, 1])
  expect([rateOf(rates, 'queue', 'constructor'), rateOf(rates, 'consumer', 'q'), rateOf(null, 'queue', 'q')]).toEqual([undefined, undefined, undefined])
})
