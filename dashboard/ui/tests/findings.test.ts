import { expect, test } from 'vitest'
import { kindOf, unmuted } from '../src/text/findings'

test('muted kinds are left out, unless one is asked for', () => {
  expect(unmuted('', [])).toBe('')
  expect(unmuted('orders', ['auto-ack', 'guest-login'])).toBe('orders -kind:auto-ack -kind:guest-login')
  expect(unmuted('kind:auto-ack', ['auto-ack', 'guest-login'])).toBe('kind:auto-ack -kind:guest-login')
})

test('words may have a kind', () => {
  expect(kindOf('orders kind:auto-ack')).toBe('auto-ack')
  expect(kindOf('-kind:auto-ack')).toBeNull()
})
