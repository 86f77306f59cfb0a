import { describe, expect, it } from 'vitest'
import { parseChoices, tintOf } from '../src/live/list_choices.svelte'

describe('what is chosen for lists', () => {
  it('is read from wherever it was stored', () => {
    expect(parseChoices(null)).toEqual({ hidden: [], words: ['', '', '', ''] })
    expect(parseChoices('{"hidden": ["Rules", 1], "words": ["a", null]}')).toEqual({ hidden: ['Rules'], words: ['a', '', '', ''] })
    expect(parseChoices('no JSON')).toEqual(parseChoices('null'))
  })

  it('colours rows with a word, in any case', () => {
    const row = { seq: 1, arguments: { routing_key: 'Orders.new' } }
    expect(tintOf(row, ['', 'orders', 'new', ''])).toBe('tint-violet')
    expect(tintOf(row, ['absent', '', '', ' '])).toBe('')
    expect(tintOf(row, ['', '', '', ''])).toBe('')
  })
})
