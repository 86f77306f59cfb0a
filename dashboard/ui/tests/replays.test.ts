import { describe, expect, it } from 'vitest'
import { changesText, isOneOf, replayCommand, replayManner, replayText, type Replay } from '../src/text/replays'

const REPLAY: Replay = {
  id: 1,
  path: '/a b/x.pcapng',
  name: 'x.pcapng',
  to: 'amqp://guest@127.0.0.1:5672/',
  speed: 1,
  clients: 1,
  loop: 1,
  by: '127.0.0.1',
  state: 'running',
  text: '',
  started_at: 1000,
  ended_at: null,
  difference_count: 1,
  differences: [],
  summary: null,
}

describe('replays', () => {
  it('know the proxies that are watched among their targets', () => {
    expect(isOneOf('amqp://guest:guest@localhost:5673/shop', ['127.0.0.1:5673'])).toBe(true)
    expect(isOneOf('amqp://u:p%40@broker', ['0.0.0.0:5672'])).toBe(true)
    expect(isOneOf('amqps://Proxy.example', ['proxy.example:5671'])).toBe(true)
    expect(isOneOf('[::1]:5673', ['localhost:5673'])).toBe(true)
    expect(isOneOf('amqp://localhost:5672', ['127.0.0.1:5673'])).toBe(false)
    expect(isOneOf('amqp://other:5673', ['127.0.0.1:5673'])).toBe(false)
    expect(isOneOf('', ['127.0.0.1:5673'])).toBe(false)
  })

  it('say how far they are, and what came of them', () => {
    expect(replayText(REPLAY, 1012)).toBe('for 12 s, 1 difference so far')
    const progress = { connections: 1, commands_sent: 1234, answers_compared: 3, loop: 2 }
    expect(replayText({ ...REPLAY, progress }, 1012)).toBe('for 12 s, 1,234 commands sent, 1 difference so far')
    expect(replayText({ ...REPLAY, progress, loop: 5 }, 1012)).toBe('time 2 of 5, for 12 s, 1,234 commands sent, 1 difference so far')
    expect(replayText({ ...REPLAY, progress, loop: 0 }, 1012)).toBe('time 2, for 12 s, 1,234 commands sent, 1 difference so far')
    const summary = { connections: 1, commands_sent: 1100, answers_compared: 12, not_played: [], notes: [] }
    const done: Replay = { ...REPLAY, state: 'same', ended_at: 1002, difference_count: 0, summary }
    expect(replayText(done, 5000)).toBe('1 connection, 1,100 commands sent, 12 answers compared, 0 differences, in 2 s')
    expect(replayText({ ...REPLAY, state: 'failed', text: 'nobody is there' }, 1001)).toBe('nobody is there')
  })

  it('say in what manner', () => {
    expect(replayManner(REPLAY)).toBe('1×')
    expect(replayManner({ speed: 'max', clients: 3, loop: 0 })).toBe('as fast as it answers, 3 copies, again and again')
  })

  it('show fields that differ', () => {
    const changes = [
      { field: 'arguments.queue', before: 'a', after: '' },
      { field: 'body', after: 1 },
    ]
    expect(changesText({ kind: 'changed', type: 'get', what: 'x', changes })).toBe('arguments.queue: a → ""; body: absent → 1')
  })

  it('are commands for a shell', () => {
    expect(replayCommand("/a b/it's.pcapng", '127.0.0.1:5673', 'max', 2, 1)).toBe(
      "amqproxy replay '/a b/it'\\''s.pcapng' --to amqp://127.0.0.1:5673 --speed max --clients 2",
    )
  })
})
