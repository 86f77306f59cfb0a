import { expect, test } from 'vitest'
import { shownConnection } from '../src/api/connections'

const ended = { session: 5, connection: '10.0.0.7:4711-10.0.0.1:5673', state: 'closed', is_open: false }

function shown(protocol: string, client_properties: { [name: string]: string }) {
  const { product, name, ...rest } = shownConnection({ ...ended, seen: { ...ended, protocol, handshake: { client_properties } } })
  return [rest.protocol, product, name]
}

test('a connection that is over has the product and the name that its client gave, by either protocol', () => {
  expect(shown('0-9-1', { product: 'pika', version: '1.3', connection_name: 'shop' })).toEqual(['0-9-1', 'pika 1.3', 'shop'])
  expect(shown('0-10', { product: 'qpid python client', 'qpid.client_version': '1.36', 'qpid.client_process': 'shop.py' })).toEqual([
    '0-10', 'qpid python client 1.36', 'shop.py',
  ])
  expect(shown('0-10', { product: 'qpid', clientName: 'shop', 'qpid.client_process': 'Qpid Java Client' })).toEqual(['0-10', 'qpid', 'shop'])
})
