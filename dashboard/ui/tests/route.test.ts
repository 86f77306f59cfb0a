import { expect, test } from 'vitest'
import { formatRoute, NO_QUERY, parseRoute, SCREENS } from '../src/routing/route'

const route = (path: string) => parseRoute(new URL(path, 'http://localhost'))

test('each screen has its path', () => {
  for (const screen of SCREENS) expect(route(`/${screen}`)).toEqual({ screen, item: null, query: NO_QUERY })
  expect(route('/connections/12').item).toBe(12)
})

test('a name has a page of its own', () => {
  const found = route('/queue?name=a%2Fb%20%26&vhost=%2F')
  expect([found.screen, found.query.name, found.query.vhost]).toEqual(['queue', 'a/b &', '/'])
  expect(route(formatRoute(found))).toEqual(found)
  expect(formatRoute({ screen: 'exchange', item: null, query: { ...NO_QUERY, name: '' } })).toBe('/exchange')
})

test('what is unknown leads to the overview', () => {
  for (const path of ['/', '/nothing', '/connectionsx']) expect(route(path).screen).toBe('overview')
  expect(route('/frames?seq=x&start=-1&source=').query).toEqual(NO_QUERY)
})

test('a URL says all that is looked at, and only that', () => {
  const filter = `exchange == "a&b" && headers["ü #"] == '%'`
  const shared = { screen: 'frames' as const, item: null, query: { ...NO_QUERY, source: 2, filter, start: 5, seq: 0 } }
  expect(route(formatRoute(shared))).toEqual(shared)
  expect(formatRoute({ screen: 'frames', item: null, query: NO_QUERY })).toBe('/frames')
})

test('a screen may have its own keys', () => {
  const found = route('/sequence?connection=127.0.0.1:1-127.0.0.1:2&channel=3')
  expect(found.query.connection).toBe('127.0.0.1:1-127.0.0.1:2')
  expect(route(formatRoute(found))).toEqual(found)
})
