import { describe, expect, it } from 'vitest'
import type { Held } from '../src/api/types'
import { bodyText, changesOf, isWhole } from '../src/text/held'

const held: Held = {
  session: 1,
  number: 1,
  connection: 'a:1-b:2',
  rule: 'look',
  since: 0,
  until: 60,
  on_timeout: 'pass',
  will: 'pass',
  from: 'client',
  channel: 1,
  method: 'basic.publish',
  arguments: { routing_key: 'a' },
  properties: { headers: { by: 'alice', draft: true } },
  size: 3,
  body: 'abc',
}

describe('a held command', () => {
  it('is released with what was changed only', () => {
    expect(changesOf(held, 'a', '{"by": "alice", "draft": true}', 'abc')).toEqual({})
    expect(changesOf(held, 'b', '{"by": "bob"}', 'abcd')).toEqual({ fields: { routing_key: 'b' }, headers: { by: 'bob', draft: null }, body: 'abcd' })
    expect(() => changesOf(held, 'a', 'no JSON', 'abc')).toThrow(SyntaxError)
  })

  it('can be edited where all of its body is here', () => {
    expect(isWhole(held)).toBe(true)
    expect(isWhole({ ...held, size: 4 })).toBe(false)
    expect(isWhole({ ...held, body: { base64: '/w==' }, size: 1 })).toBe(false)
    expect(isWhole({ ...held, body: 'é', size: 2 })).toBe(true)
    expect(bodyText({ ...held, body: undefined })).toBe('')
  })
})
