import { expect, test } from 'vitest'
import { isAtEnd, scrolledTo, windowOf } from '../src/live/window'

test('the rows in view, and some more', () => {
  expect(windowOf(1000, 20, 0, 100, 2)).toEqual({ from: 0, to: 7 })
  expect(windowOf(1000, 20, 200, 100, 2)).toEqual({ from: 8, to: 17 })
  expect(windowOf(1000, 20, 19_900, 100, 2)).toEqual({ from: 993, to: 1000 })
})

test('no row where there is none', () => {
  expect(windowOf(0, 20, 0, 100)).toEqual({ from: 0, to: 0 })
  expect(windowOf(3, 20, 500, 100)).toEqual({ from: 3, to: 3 })
})

test('all rows in view are in the window, wherever it is', () => {
  for (let top = 0; top < 900; top += 13) {
    const { from, to } = windowOf(50, 20, top, 95, 0)
    expect(from * 20).toBeLessThanOrEqual(top)
    expect(Math.min(1000, top + 95)).toBeLessThanOrEqual(to * 20)
    expect(to - from).toBeLessThanOrEqual(6)
  }
})

test('the end is the end, give or take half a row', () => {
  expect(isAtEnd(1000, 900, 100, 20)).toBe(true)
  expect(isAtEnd(1000, 891, 100, 20)).toBe(true)
  expect(isAtEnd(1000, 880, 100, 20)).toBe(false)
})

test('a row is brought into view with the least scrolling', () => {
  expect(scrolledTo(5, 20, 0, 200)).toBe(0)
  expect(scrolledTo(10, 20, 0, 200)).toBe(20)
  expect(scrolledTo(2, 20, 100, 200)).toBe(40)
})
