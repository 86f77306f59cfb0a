import { expect, test } from 'vitest'
import { columnsOf, SampleSeries, topNames, type Sample } from '../src/live/samples'

function sample(ts: number, more: Partial<Sample> = {}): Sample {
  return { ts, seconds: 1, frames: 0, methods: {}, bytes: { client: 0, server: 0 }, messages: {}, ...more }
}

test('no more samples are kept than there is to be seen', () => {
  const series = new SampleSeries(100)
  for (let ts = 0; ts < 1000; ts += 1) series.push(sample(ts))
  expect(series.samples.length).toBeLessThanOrEqual(160)
  expect(series.last?.ts).toBe(999)
})

test('what the server had before goes in front, once', () => {
  const series = new SampleSeries()
  series.push(sample(5))
  series.push(sample(5))
  series.before([sample(3), sample(4), sample(5)])
  expect(series.samples.map((each) => each.ts)).toEqual([3, 4, 5])
})

test('the methods that there are most of', () => {
  const samples = [sample(1, { methods: { a: 1, b: 5 } }), sample(2, { methods: { c: 3, a: 4, d: 0 } })]
  expect(topNames(samples, 2)).toEqual(['a', 'b'])
  expect(topNames(samples, 9)).toEqual(['a', 'b', 'c'])
})

test('a heat map has few columns, and loses nothing', () => {
  const samples = Array.from({ length: 10 }, (_, ts) => sample(ts, { ack: [1, ts] }))
  const columns = columnsOf(samples, 'ack', 4)
  expect(columns.map((each) => each.ts)).toEqual([0, 3, 6, 9])
  expect(columns.reduce((sum, each) => sum + each.counts[1]!, 0)).toBe(45)
})
