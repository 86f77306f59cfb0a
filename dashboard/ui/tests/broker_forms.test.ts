import { expect, test } from 'vitest'
import { changeOf, declareQueue, publishTo, putUser } from '../src/text/broker_forms'

test('the type of a queue is one of its arguments', () => {
  const sent = changeOf(declareQueue('/'), { name: 'a', type: 'quorum', arguments: '{"x-max-length": 5}' })
  expect(sent).toEqual({ change: 'declare-queue', name: 'a', vhost: '/', durable: true, auto_delete: false, arguments: { 'x-max-length': 5, 'x-queue-type': 'quorum' } })
})

test('a text that is not an object is refused', () => {
  expect(() => changeOf(declareQueue('/'), { arguments: '{' })).toThrow('not JSON')
  expect(() => changeOf(declareQueue('/'), { arguments: '[]' })).toThrow('not an object')
})

test('a body is sent in base64', () => {
  expect(changeOf(publishTo('/', 'e', 'k'), { body: 'ü' }).body).toBe('w7w=')
})

test('tags are a list, and no password leaves the old one', () => {
  expect(changeOf(putUser(), { name: 'a', tags: 'x, y', password: '' })).toEqual({ change: 'put-user', name: 'a', tags: ['x', 'y'] })
})
