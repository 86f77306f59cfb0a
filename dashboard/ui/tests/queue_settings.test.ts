import { expect, test } from 'vitest'
import type { BrokerQueue, Policy, QueueDetail } from '../src/api/broker'
import type { Table } from '../src/api/types'
import { QueueRates } from '../src/text/queue_rates'
import { settingsOf } from '../src/text/queue_settings'

function queue(more: Partial<BrokerQueue>): BrokerQueue {
  return { vhost: '/', name: 'a', arguments: {}, policy: null, operator_policy: null, counts: null, ...more } as BrokerQueue
}

function detail(args: Table, policy: Table | null = null, operator: Table | null = null): QueueDetail {
  const none = { total: 0, filtered: 0, objects: [] }
  const named = (definition: Table | null): Policy | null => (definition ? ({ definition } as Policy) : null)
  return {
    queue: queue({ arguments: args, policy: policy && 'p', operator_policy: operator && 'o' }),
    bindings: none,
    consumers: none,
    policies: { policy: named(policy), operator_policy: named(operator) },
  }
}

test('the lowest number counts, whoever gives it', () => {
  const [setting] = settingsOf(detail({ 'x-max-length': 10 }, { 'max-length': 5 }, { 'max-length': 7 }))
  expect(setting).toMatchObject({ key: 'max-length', value: 5, from: 'policy p', others: ['7 of operator policy o', '10 of argument'] })
})

test('of all else an argument beats policies', () => {
  const [setting] = settingsOf(detail({ 'x-overflow': 'drop-head' }, { overflow: 'reject-publish' }))
  expect(setting).toMatchObject({ value: 'drop-head', from: 'argument', others: ['reject-publish of policy p'] })
  expect(settingsOf(detail({}))).toEqual([])
})

test('a rate is the difference of two looks, of dead letters too', () => {
  const rates = new QueueRates()
  const counts = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]
  expect(rates.look([queue({ entered: 0, left: 0, counts: null })], 1).size).toBe(0)
  expect(rates.look([queue({ entered: 10, left: 6, counts })], 3).get('/\0a')).toEqual({ in: 5, out: 3, ack: 2 })
  expect(rates.look([queue({ entered: 10, left: 6, counts })], 3).size).toBe(0)
})
