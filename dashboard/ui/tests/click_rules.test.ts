import { describe, expect, it } from 'vitest'
import type { FrameRow, MessageRow } from '../src/api/types'
import { ACTS, clickRule, frameAim, HOLD, messageAim } from '../src/text/click_rules'

const row = { seq: 1, ts_ns: 0, stream: 1, connection: '10.0.0.7:4711-10.0.0.1:5673', outcome: '' }
const published: MessageRow = { ...row, type: 'publish', from: 'client', exchange: 'orders', routing_key: 'a"b' }
const act = (id: string) => ACTS.find((each) => each.id === id)!

describe('rules by click', () => {
  it('hold the next message with these names, whatever characters are in them', () => {
    expect(clickRule(HOLD, messageAim(published)!, 0, 600, true, false)).toEqual({
      name: 'hold the next, basic.publish, exchange orders, key a"b',
      action: 'hold',
      count: 1,
      timeout: 600,
      match: { method: 'basic.publish' },
      when: 'exchange == "orders" && routing_key == "a\\"b"',
    })
  })

  it('nack each tenth of one connection', () => {
    expect(clickRule(act('nack every'), messageAim(published)!, 10, 60, false, true)).toEqual({
      name: 'nack every 10th, basic.publish, from 10.0.0.7:4711',
      action: 'fault',
      fault: { kind: 'nack' },
      every: 10,
      match: { method: 'basic.publish' },
      when: 'client.address == "10.0.0.7" && client.port == 4711',
    })
  })

  it('are about 0-9-1’s words for messages of 0-10', () => {
    const frame: FrameRow = { ...row, type: 'command', from: 'client', protocol: '0-10', method: 'message.transfer', arguments: { destination: 'amq.topic' } }
    const view = { method: 'basic.publish', arguments: { exchange: 'amq.topic', routing_key: 'k' } }
    expect(frameAim(frame, view)).toMatchObject({ method: 'basic.publish', names: 'exchange == "amq.topic" && routing_key == "k"' })
    expect(frameAim({ ...frame, method: 'message.flow' }, null)).toBe(null)
    const request: MessageRow = { ...row, type: 'request', from: 'client', method: 'exchange.bind', arguments: { queue: 'jobs' } }
    const bind = { method: 'queue.bind', arguments: { queue: 'jobs', exchange: 'amq.topic', routing_key: '#' } }
    expect(messageAim(request, bind)).toMatchObject({ method: 'queue.bind', names: 'exchange == "amq.topic" && routing_key == "#"' })
    expect(messageAim({ ...published, type: 'deliver' })?.method).toBe('basic.deliver')
  })

  it('are about the method and the queue of a request', () => {
    const request: MessageRow = { ...row, type: 'request', from: 'client', method: 'queue.declare', arguments: { queue: 'jobs' } }
    expect(messageAim(request)).toMatchObject({ method: 'queue.declare', names: 'queue == "jobs"' })
    expect(ACTS.filter((each) => each.fits('queue.declare')).map((each) => each.id)).toEqual(['delay', 'hold all', 'drop'])
    expect(ACTS.filter((each) => each.fits('connection.open'))).toEqual([])
  })

  it('are not made of what is no command', () => {
    expect(frameAim({ ...row, type: 'body', from: 'client' })).toBe(null)
    expect(messageAim({ ...row, type: 'connection' })).toBe(null)
  })
})
