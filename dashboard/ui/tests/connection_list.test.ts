import { expect, test } from 'vitest'
import { KnownRows, type Changes } from '../src/api/connection_list.svelte'

const row = { connection: '10.0.0.7:1-b:2', name: '', client: '10.0.0.7', user: 'guest', is_open: true, state: 'open', blocked: false, channels: 1, consumers: 0, from_client: 5, from_server: 6 }
const none: Changes = {
  version: 1,
  is_whole: false,
  open: 1,
  closed: 0,
  connections: [],
  counted: ['state', 'blocked', 'channels', 'consumers', 'from_client', 'from_server'],
  counters: [],
  gone: [],
}

test('changes are applied to what is known', () => {
  const rows = new KnownRows()
  rows.take({ ...none, is_whole: true, connections: [{ ...row, session: 2 }, { ...row, session: 1 }] })
  rows.take({ ...none, version: 2, counters: [[2, 'open', false, 3, 1, 50, 60]], gone: [1] })
  expect(rows.version).toBe(2)
  expect(rows.all.map((each) => [each.number, each.clientName, each.user, each.channels, each.fromClient])).toEqual([[2, '10.0.0.7', 'guest', 3, 50]])
  rows.take({ ...none, counters: [[7, 'open', false, 3, 1, 50, 60]] })
  rows.take({ ...none, is_whole: true, connections: [{ ...row, session: 3, name: 'shop', client: 'shop' }] })
  expect(rows.all.map((each) => [each.number, each.clientName])).toEqual([[3, 'shop']])
})
