import { expect, test } from 'vitest'
import { Ring } from '../src/live/ring'

function rows(ring: Ring<number>): (number | undefined)[] {
  return Array.from({ length: ring.length }, (_, index) => ring.at(index))
}

test('the oldest rows make room for the newest', () => {
  const ring = new Ring<number>(3)
  ring.push([1, 2])
  ring.push([3, 4, 5])
  expect(rows(ring)).toEqual([3, 4, 5])
  expect([ring.first, ring.last, ring.length, ring.dropped]).toEqual([3, 5, 3, 2])
  expect(ring.at(-1)).toBeUndefined()
  expect(ring.at(3)).toBeUndefined()
})

test('it has what an array has, however rows come', () => {
  for (const capacity of [1, 2, 7, 16]) {
    const ring = new Ring<number>(capacity)
    let expected: number[] = []
    let dropped = 0
    for (let step = 0, next = 0; step < 50; step += 1) {
      const batch = Array.from({ length: (step * 7) % 11 }, () => next++)
      ring.push(batch)
      const all = [...expected, ...batch]
      expected = all.slice(-capacity)
      dropped += all.length - expected.length
      expect(rows(ring)).toEqual(expected)
      expect(ring.dropped).toBe(dropped)
    }
  }
})

test('rows that come late are put in their order, each once', () => {
  const ring = new Ring<number>(6)
  const itself = (row: number) => row
  ring.merge([3, 1], itself)
  ring.merge([8, 5], itself)
  expect(rows(ring)).toEqual([1, 3, 5, 8])
  ring.merge([4, 9, 5], itself)
  expect(rows(ring)).toEqual([1, 3, 4, 5, 8, 9])
  ring.merge([2, 10], itself)
  expect(rows(ring)).toEqual([3, 4, 5, 8, 9, 10])
  expect(ring.dropped).toBe(2)
})

test('older rows go in front, as many as there is room for', () => {
  const ring = new Ring<number>(4)
  ring.push([7, 8])
  expect(ring.unshift([4, 5, 6])).toBe(2)
  expect(rows(ring)).toEqual([5, 6, 7, 8])
  expect(ring.dropped).toBe(-2)
  expect(ring.unshift([4])).toBe(0)
})

test('an index and what was dropped name the same row, also after it was emptied', () => {
  const ring = new Ring<number>(2)
  ring.push([1, 2, 3])
  ring.clear()
  expect([ring.length, ring.dropped]).toEqual([0, 3])
  ring.push([4])
  expect([ring.first, ring.dropped]).toEqual([4, 3])
})

test('its version grows with each change, and only then', () => {
  const ring = new Ring<number>(2)
  const before = ring.version
  ring.push([])
  expect(ring.version).toBe(before)
  ring.push([1])
  expect(ring.version).toBeGreaterThan(before)
})

test('a row is found by its number', () => {
  const ring = new Ring<number>(4)
  ring.push([10, 20, 30, 40, 50])
  const search = (key: number) => ring.search(key, (row) => row)
  expect([search(5), search(20), search(35), search(50), search(51)]).toEqual([0, 0, 2, 3, 4])
})
