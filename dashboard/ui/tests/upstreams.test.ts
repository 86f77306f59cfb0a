import { expect, test } from 'vitest'
import { changeText, groupsOf, memberPath, type Member } from '../src/text/upstreams'

const member = (upstream: string, name: string, more: Partial<Member> = {}): Member => ({
  upstream,
  member: name,
  state: 'up',
  weight: 1,
  share: 1,
  priority: 0,
  zone: '',
  connections: 0,
  blocked: 0,
  failures: 0,
  retries: 0,
  ejections: 0,
  ejected_for: 0,
  connect_seconds: null,
  tls_handshakes: 0,
  token_renewals: null,
  last_failure: '',
  in_panic: false,
  login_queue: 0,
  ...more,
})

test('members are shown by upstream', () => {
  const found = groupsOf([
    member('blue', 'a:1', { connections: 2, login_queue: 3 }),
    member('green', 'b:1', { token_renewals: { renewed: 4, failed: 1 } }),
    member('blue', 'c:1', { connections: 5, state: 'ejected', login_queue: 3 }),
    member('blue', 'd:1', { weight: 0 }),
  ])
  expect(found.map((each) => [each.name, each.members.length, each.usable, each.connections, each.queue])).toEqual([
    ['blue', 3, 1, 7, 3],
    ['green', 1, 1, 0, 0],
  ])
  expect(found[1]!.renewals).toEqual({ renewed: 4, failed: 1 })
})

test('each change proposes a number that the proxy takes', () => {
  for (const kind of ['drain', 'eject', 'weight', 'rebalance'] as const) {
    const text = changeText({ kind, member: member('blue', 'a:1', { weight: 7 }) })
    expect(text.value).toBeGreaterThanOrEqual(text.least)
    expect(text.value).toBeLessThanOrEqual(text.most)
    expect(text.title).toContain(kind === 'rebalance' ? 'blue' : 'a:1')
  }
  expect(changeText({ kind: 'weight', member: member('blue', 'a:1', { weight: 7 }) }).value).toBe(7)
})

test('names are escaped in the path', () => {
  expect(memberPath(2, member('a/b', '[::1]:5672'))).toBe('/sources/2/upstreams/a%2Fb/members/%5B%3A%3A1%5D%3A5672')
})
