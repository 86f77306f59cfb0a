import { describe, expect, it } from 'vitest'
import { resendEdit, targetUrl, type Publish } from '../src/text/resend'

const before: Publish = {
  exchange: 'orders',
  routing_key: 'new',
  properties: { priority: 1, type: 'order', headers: { by: 'alice', draft: true } },
  body: 'abc',
  size: 3,
  kept: 3,
  vhost: '/',
  protocol: '0-9-1',
}
const properties = JSON.stringify(before.properties)

describe('a message that is sent again', () => {
  it('has only what was changed', () => {
    expect(resendEdit(before, 'orders', 'new', properties, 'abc')).toEqual({})
    expect(resendEdit(before, '', 'old', '{"priority": 2, "headers": {"by": "bob"}}', '')).toEqual({
      fields: { exchange: '', routing_key: 'old' },
      properties: { priority: 2, type: null },
      headers: { by: 'bob', draft: null },
      body: '',
    })
  })

  it('keeps a body that cannot be shown', () => {
    expect(resendEdit({ ...before, body: null }, 'orders', 'new', properties, '')).toEqual({})
    expect(() => resendEdit(before, 'orders', 'new', '[]', 'abc')).toThrow('object')
    expect(() => resendEdit(before, 'orders', 'new', 'no', 'abc')).toThrow(SyntaxError)
  })

  it('goes to a broker by a URL', () => {
    expect(targetUrl('broker:5672', 'a b', 'p@ss', '/')).toBe('amqp://a%20b:p%40ss@broker:5672/%2F')
    expect(targetUrl('amqps://broker/', 'a', '', 'v')).toBe('amqps://a:@broker/v')
  })
})
