import { expect, test } from 'vitest'
import type { Asked } from '../src/api/analytics'
import { everyStep, highest, lastHours, total } from '../src/text/steps'

const asked: Asked = { start_ns: 3600e9, end_ns: 4 * 3600e9, step: 'hour', by: 'all', name: null, virtual_host: null }

test('steps without traffic are there, without a point', () => {
  const found = everyStep(asked, [{ ts_ns: 2 * 3600e9, published: 7 }])
  expect(found.times).toEqual([3600, 7200, 10800])
  expect(found.points.map((each) => each?.published ?? 0)).toEqual([0, 7, 0])
})

test('a span ends with the newest row and begins no earlier than the oldest', () => {
  expect(lastHours(1, 0, 7200e9)).toEqual({ start: 3600e9, end: 7200e9 })
  expect(lastHours(24, 0, 7200e9)).toEqual({ start: 0, end: 7200e9 })
  expect(lastHours(null, 5, 7200e9)).toEqual({ start: 5, end: 7200e9 })
})

test('a legend has totals, or the highest', () => {
  expect(total([1, null, 2])).toBe(3)
  expect(highest([null, 3, 2])).toBe(3)
  expect(highest([null])).toBeNull()
})
