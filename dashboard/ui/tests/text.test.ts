import { expect, test } from 'vitest'
import { fieldAt, fieldLines } from '../src/text/field_lines'
import { both, connectionFilter, filterFor } from '../src/text/filters'
import { bytes, count, duration, seconds, short } from '../src/text/numbers'
import { frameSummary, isGap, messageSummary, outcomeMood, outcomeText } from '../src/text/summaries'
import { clock, parseTime, rangeAround } from '../src/text/times'

test('numbers are short', () => {
  expect([0, 7, 9.87, 12.345, 999, 999.7, 1000, 12_345, 2_500_000].map(short)).toEqual([
    '0', '7', '9.87', '12.3', '999', '1.00k', '1k', '12.3k', '2.50M',
  ])
  expect([null, 1234567].map(count)).toEqual(['–', '1,234,567'])
  expect([0, 1023, 1024, 1536, 131_072, 5 * 1024 ** 3].map(bytes)).toEqual([
    '0 B', '1023 B', '1.0 KiB', '1.5 KiB', '128 KiB', '5.0 GiB',
  ])
})

test('durations have the unit that fits', () => {
  expect([0, 0.000208, 0.00281, 0.5, 12.34].map(seconds)).toEqual(['0 s', '208 µs', '2.81 ms', '500 ms', '12.3 s'])
  expect([0, 59, 60, 3661, 90_000].map(duration)).toEqual(['0 s', '59 s', '1 min', '1 h 1 min', '1 d 1 h'])
})

test('a value becomes the filter that finds it', () => {
  expect(filterFor(['method'], 'basic.publish')).toBe('method == "basic.publish"')
  expect(filterFor(['from'], 'client', true)).toBe('sender != "client"')
  expect(filterFor(['channel'], 1)).toBe('channel.number == 1')
  expect(filterFor(['arguments', 'routing_key'], 'a"b\\')).toBe('routing_key == "a\\"b\\\\"')
  expect(filterFor(['arguments', 'delivery_tag'], 3)).toBe('fields.delivery_tag == 3')
  expect(filterFor(['arguments', 'arguments', 'x-max-length'], 1)).toBe('arguments["x-max-length"] == 1')
  expect(filterFor(['properties', 'headers', 'tier'], 'gold')).toBe('headers.tier == "gold"')
  expect(filterFor(['properties', 'application_headers', 'tier'], 'gold')).toBe('headers.tier == "gold"')
  expect(filterFor(['properties', 'message_id'], '7')).toBe('properties.message_id == "7"')
  expect(filterFor(['tags'], 'slow')).toBe('"slow" in tags')
  expect(filterFor(['arguments', 'arguments'], {})).toBeNull()
  expect(filterFor(['offset'], 3)).toBeNull()
  expect(filterFor(['properties', 'ttl'], 3)).toBeNull()
})

test('a connection is found by the address and the port of its client', () => {
  expect(connectionFilter('10.0.0.7:4711-10.0.0.1:5673')).toBe('client.address == "10.0.0.7" && client.port == 4711')
  expect(connectionFilter('[::1]:4711-[::1]:5673')).toBe('client.address == "::1" && client.port == 4711')
  expect(connectionFilter('nothing')).toBeNull()
})

test('filters add up', () => {
  expect(both('', 'a == 1')).toBe('a == 1')
  expect(both('a == 1', 'a == 1')).toBe('a == 1')
  expect(both('a == 1 || b == 2', 'c == 3')).toBe('(a == 1 || b == 2) && c == 3')
})

test('a frame in a line', () => {
  const row = { seq: 1, ts_ns: 1, stream: 0, connection: '', from: 'client' as const, type: 'method' }
  const publish = { ...row, method: 'basic.publish', arguments: { exchange: '', routing_key: 'q', mandatory: true, immediate: false } }
  expect(frameSummary(publish)).toBe('(default) → q mandatory')
  expect(frameSummary({ ...row, method: 'basic.ack', arguments: { delivery_tag: 1, multiple: false } })).toBe('delivery_tag=1')
  const transfer = { ...row, type: 'command', flags: 'Bbe', command_id: 0, method: 'message.transfer' }
  expect(frameSummary({ ...transfer, arguments: { destination: 'amq.direct', accept_mode: 1, acquire_mode: 0 } })).toBe(
    '#0 → amq.direct accept_mode=none',
  )
  expect(frameSummary({ ...row, method: 'session.completed', flags: 'BEbe', arguments: { commands: [[0, 3], [7, 7]] } })).toBe(
    'commands=0-3, 7',
  )
  const answered = { type: 'request', outcome: 'answered', reply: 'session.completed', reply_arguments: { commands: [[6, 6]] } }
  expect(outcomeText(answered as never)).toBe('answered session.completed commands=6')
  expect(frameSummary({ ...row, type: 'header', flags: 'b', command_id: 7 })).toBe('#7 (its first frame)')
  expect(frameSummary({ ...row, type: 'error', code: 501, reason: 'what' })).toBe('501 what')
  const unseen = { ...row, type: 'error', code: 501, reason: 'bytes are missing from the capture', lost: 1204 }
  expect(isGap(unseen)).toBe(true)
  expect(frameSummary(unseen)).toBe('1,204 bytes were not seen')
})

test('a message in a line', () => {
  const row = { seq: 1, ts_ns: 1, stream: 0, connection: '', type: 'publish', outcome: 'confirmed' }
  const returned = { ...row, exchange: '', routing_key: 'nowhere', code: 312, reason: 'NO_ROUTE' }
  expect(messageSummary(returned)).toBe('(default) → nowhere')
  expect(outcomeText(returned)).toBe('confirmed 312 NO_ROUTE')
  expect([outcomeMood(row), outcomeMood(returned), outcomeMood({ ...row, outcome: 'open' })]).toEqual(['good', 'bad', 'open'])
})

test('a byte belongs to the deepest field around it', () => {
  const leaf = { name: 'routing_key', value: 'a', start: 3, end: 5 }
  const method = { name: 'method', value: null, start: 2, end: 8, children: [leaf] }
  expect(fieldAt([method], 4)).toBe(leaf)
  expect(fieldAt([method], 6)).toBe(method)
  expect(fieldAt([method], 9)).toBeNull()
  const lines = fieldLines([method], new Set())
  expect(lines.map((line) => line.depth)).toEqual([0, 1])
  expect(fieldLines([method], new Set([lines[0]!.id]))).toHaveLength(1)
})

test('times are of the day that is looked at', () => {
  const near = Date.UTC(2026, 10, 22, 12, 0, 0) * 1e6
  expect(parseTime('12:34:56.5', near)).toBe(Date.UTC(2026, 10, 22, 12, 34, 56, 500) * 1e6)
  expect(parseTime('9:05', near)).toBe(Date.UTC(2026, 10, 22, 9, 5) * 1e6)
  expect(parseTime('2026-11-22 12:34:56', near)).toBe(Date.UTC(2026, 10, 22, 12, 34, 56) * 1e6)
  expect(parseTime('2026-11-22T12:34:56+01:00', near)).toBe(Date.UTC(2026, 10, 22, 11, 34, 56) * 1e6)
  expect(clock(near)).toBe('12:00:00.000000')
  expect(parseTime('soon', near)).toBeNull()
})

test('a range holds the rows at both its ends, whatever a number loses of their times', () => {
  for (const ns of [1795404890314785000n, 1795404890314785127n, 1795404890314785129n, 1795404890314785999n]) {
    const [start, end] = rangeAround(Number(ns), Number(ns))
    expect(BigInt(String(start)) <= ns && ns < BigInt(String(end))).toBe(true)
  }
})
