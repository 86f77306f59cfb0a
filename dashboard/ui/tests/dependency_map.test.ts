import { expect, test } from 'vitest'
import type { AnswerTable, AnswerValue } from '../src/api/analytics'
import { dependencyMap } from '../src/text/dependency_map'

const NAMES = [
  ...['publisher', 'publisher_client', 'exchange', 'routing_key', 'queue', 'consumer', 'consumer_client', 'virtual_host'],
  ...['published', 'failed', 'delivered', 'refused', 'p99_ns'],
]

function answer(...rows: AnswerValue[][]): AnswerTable {
  const columns = NAMES.map((name) => ({ name, title: name, kind: 'text' as const }))
  return { asked: {} as AnswerTable['asked'], question: 'dependencies', columns, rows }
}

test('a path of messages leads from publisher to consumer', () => {
  const { nodes, edges } = dependencyMap(
    answer(
      ['shop', 'web', 'orders', 'new', 'mail', 'mail', 'mailer', '/', 900, 3, 800, 2, 5e9],
      ['shop', 'web', 'orders', 'new', 'bill', 'bill', 'biller', '/', 900, 3, 900, 0, null],
      [null, null, 'orders', 'new', 'mail', 'mail', 'mailer', '/', null, null, 10, 1, null],
      ['shop', 'web', '', 'unread', null, null, null, '/', 4, 0, 0, 0, null],
    ),
  )
  expect(nodes.map(({ kind, label, about }) => `${kind} ${label} ${about}`.trim())).toEqual([
    'route orders new',
    'publisher web shop',
    'queue mail',
    'consumer mailer mail',
    'queue bill',
    'consumer biller bill',
    'route (default) unread',
  ])
  const labels = new Map(nodes.map((node) => [node.id, node.label]))
  expect(edges.map(({ from, to, label, isBad }) => [`${labels.get(from)} → ${labels.get(to)}`, label, isBad])).toEqual([
    ['web → orders', '900  ✕ 3', true],
    ['orders → mail', '810  p99 5.00 s', false],
    ['mail → mailer', '810  ✕ 3', true],
    ['orders → bill', '900', false],
    ['bill → biller', '900', false],
    ['web → (default)', '4', false],
  ])
})

test('nothing has no nodes', () => {
  expect(dependencyMap({ ...answer(), columns: [] })).toEqual({ nodes: [], edges: [] })
})
