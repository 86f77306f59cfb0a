import { expect, test } from 'vitest'
import type { Life } from '../src/api/types'
import { lifeSteps } from '../src/text/lives'

const LIFE: Life = {
  life: 1,
  linked_by: 'message_id',
  publish: { ts_ns: 1, stream: 1, connection: 'shop', channel: 1, number: 1, exchange: '', routing_key: 'q', outcome: 'confirmed', seconds: 0.002 },
  deliveries: [
    { ts_ns: 2, stream: 2, channel: 1, queue: 'q', sure: true, among: 1, transit_seconds: 0.001, outcome: 'rejected', requeue: false },
    { ts_ns: 3, stream: 3, channel: 1, queue: 'dead', died_in: 'q', died_of: 'rejected', among: 2 },
  ],
}

test('each step names its connection, what happened, and what became of it', () => {
  const [published, delivered, dead] = lifeSteps(LIFE)
  expect(published).toMatchObject({ stream: 1, name: 'shop', detail: 'to the default exchange, routing key q', outcome: 'confirmed after 2.00 ms', mood: 'good' })
  expect(delivered).toMatchObject({ stream: 2, text: '← delivered', detail: 'from q, 1.00 ms after the publish', outcome: 'rejected, not requeued', mood: 'bad', doubt: '' })
  expect(dead).toMatchObject({ text: '← dead letter', detail: 'from dead, was rejected in q', outcome: 'pending', mood: 'open' })
  expect(dead?.doubt).toContain('2 alike')
})

test('without its publish nothing is doubted', () => {
  const steps = lifeSteps({ life: 2, linked_by: 'content', deliveries: [{ ts_ns: 2, stream: 2, channel: 1 }] })
  expect(steps).toHaveLength(1)
  expect(steps[0]?.doubt).toBe('')
})

test('deliveries beyond the limit are counted after the first half', () => {
  const deliveries = Array.from({ length: 256 }, (_, index) => ({ ts_ns: index, stream: 2, channel: 1 }))
  const steps = lifeSteps({ life: 3, linked_by: 'content', deliveries, left_out: 1744 })
  expect(steps).toHaveLength(257)
  expect(steps[128]).toMatchObject({ text: '1,744 more deliveries', outcome: '' })
})
