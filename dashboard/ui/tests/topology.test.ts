import { expect, test } from 'vitest'
import { changesBetween, rungsOf } from '../src/text/ladders'
import { rateOf, type Flow } from '../src/api/flows'
import { around, folded, graphOf, serviceMap, type TopologyItem } from '../src/text/topology_graph'

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
  const items = [queue('q'), { ...consumer, name: 'shop' }, { ...consumer, name: 'shop', session: 4 }, { ...consumer, connection: '10.0.0.7:4-b:5' }, consumer]
  const graph = graphOf(items, null)
  expect(graph.nodes.map((each) => each.label)).toEqual(['q', 'shop', '10.0.0.7', 'guest'])
  expect(graph.nodes[1]!.about).toBe('guest, 2 connections')
  expect(graph.edges).toHaveLength(3)
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

function flow(client: string, exchange: string, routing_key: string | null, queue: string | null = null, errors = 0): Flow {
  return { client, user: 'guest', vhost: '/', exchange, routing_key, queue, messages: 10, bytes: 100, errors, rate: 2, outcomes: {}, p50: 0.001, p99: 0.01, transit_p50: 0.002, transit_p99: 0.02, last_ns: 1 }
}

const flows = {
  seconds: 60,
  is_complete: true,
  published: [flow('shop', 'orders', 'new'), flow('till', 'orders', 'new', null, 3), flow('shop', '', 'q')],
  delivered: [flow('worker', 'orders', 'new', 'q')],
}

test('publishers lead to their exchanges, and queues to the clients that consume', () => {
  const graph = graphOf([exchange('orders'), queue('q'), binding('orders', 'q', 'new')], null, flows)
  const labels = new Map(graph.nodes.map((each) => [each.id, each.label]))
  expect(graph.edges.map((each) => `${labels.get(each.from)} ${each.label} ${labels.get(each.to)}`)).toEqual([
    'orders new q',
    'shop new orders',
    'till new orders',
    'shop q (default)',
    '(default)  q',
    'q  worker',
  ])
})

test('what a capture has deleted is drawn', () => {
  const items = [{ ...queue('b'), state: 'deleted' }]
  expect(graphOf(items, null, null, true).nodes.map((each) => each.label)).toEqual(['b'])
})

test('a service map has clients at both ends, with rate, errors and p99 of each edge', () => {
  const graph = serviceMap(flows, null)
  expect(graph.nodes.map((each) => [each.kind, each.label, each.about])).toEqual([
    ['publisher', 'shop', 'guest'],
    ['route', 'orders', 'new'],
    ['publisher', 'till', 'guest'],
    ['route', '(default)', 'q'],
    ['consumer', 'worker', 'guest'],
  ])
  expect(graph.edges.map((each) => each.label)).toEqual(['2/s  p99 ≤ 10.0 ms', '2/s  ✕ 3  p99 ≤ 10.0 ms', '2/s  p99 ≤ 10.0 ms', '2/s  arrives ≤ 20.0 ms'])
  expect(graph.edges.map((each) => each.isBad)).toEqual([false, true, false, false])
  expect(serviceMap(flows, 'other').nodes).toEqual([])
})

test('rates are summed; of what has no flow, none are known', () => {
  expect(rateOf(flows.published, (each) => each.exchange === 'orders')).toBe(4)
  expect(rateOf(flows.published, (each) => each.exchange === 'constructor')).toBe(undefined)
})
