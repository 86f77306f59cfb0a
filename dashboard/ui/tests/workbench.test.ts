import { expect, test } from 'vitest'
import { factsText, oneOf, runNotes, runText, type PeekedMessage, type Run } from '../src/text/workbench'

function run(more: Partial<Run>): Run {
  return { command: 'move', state: 'done', dry_run: false, result: { done: 3, looked_at: 5, depth: 9, to: "queue 'a'", left_count: 1 }, ...more } as Run
}

test('a run says what came of it', () => {
  expect(runText(run({}))).toBe("3 moved to queue 'a', 5 of 9 looked at, 1 left")
  expect(runText(run({ dry_run: true, command: 'requeue' }))).toBe("3 would be brought back to queue 'a', 5 of 9 looked at, 1 left")
  expect(runText(run({ state: 'refused' }))).toBe('refused: nothing was done')
  expect(runNotes(run({ result: { possible_repeats: 2, not_looked_at: 1 } }))).toEqual(['1 message behind not looked at', '2 possible duplicates'])
})

test('a queue is named by its kind', () => {
  expect(factsText({ facts: { type: 'quorum', messages: 1, consumers: 2 }, lines: [] })).toBe('quorum queue, 1 message, 2 consumers')
})

test('only what is changed of a message is sent', () => {
  const message = { position: 4, digest: 'd', body: 'old', properties: {} } as unknown as PeekedMessage
  expect(oneOf(message, '{"type": "t"}', 'old')).toEqual({ position: 4, digest: 'd', properties: { type: 't' } })
  expect(oneOf(message, '{}', 'new').body).toBe('new')
  expect(oneOf({ ...message, body: null }, '{}', '').body).toBeUndefined()
  expect(() => oneOf(message, '[]', '')).toThrow('not an object')
})
