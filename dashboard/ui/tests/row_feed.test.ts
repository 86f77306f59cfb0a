import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Arrival, LiveSocket } from '../src/live/live_socket'
import { type Numbered, PAGE, RowFeed } from '../src/live/row_feed'

const ALL = { source: 0, filter: '', faults: false, start: null, end: null }

/** A server that has rows from 0 on; every third has the filter `third`. In one answer it looks at `patience` rows. */
class Server {
  count = 5_000
  patience = Infinity
  sent: { type: string; view?: string; after?: number | null; credit?: number }[] = []
  listener: (arrival: Arrival) => void = () => {}
  readonly socket = {
    send: (message: (typeof this.sent)[number]) => this.sent.push(message),
    onArrival: (listener: typeof this.listener) => ((this.listener = listener), () => {}),
    onStatus: () => () => {},
  } as unknown as LiveSocket

  /** The view that the page follows. */
  get view(): string {
    return this.sent.findLast(({ type }) => type === 'view')!.view!
  }

  answer(path: string): { rows: Numbered[]; next: number; has_more: boolean; searched: number } {
    const query = new URL(path, 'http://here').searchParams
    const [before, after] = [query.get('before'), query.get('after')]
    const asked = Array.from({ length: this.count }, (_, seq) => ({ seq, ts_ns: seq })).filter(
      ({ seq }) => (before === null || seq < Number(before)) && (after === null || seq > Number(after)),
    )
    const [least, most] = after === null ? [asked.length - this.patience, Infinity] : [0, this.patience]
    const looked = asked.filter((_, index) => index >= least && index < most)
    const every = { third: 3, thousandth: 1_000 }[query.get('filter') ?? ''] ?? 1
    const rows = looked.filter(({ seq }) => seq % every === 0)
    return {
      rows: after === null ? rows.slice(-PAGE) : rows.slice(0, PAGE),
      next: this.count,
      has_more: rows.length > PAGE || looked.length < asked.length,
      searched: (after === null ? looked.at(0)?.seq : looked.at(-1)?.seq) ?? 0,
    }
  }
}

let server: Server
let feed: RowFeed<Numbered>

beforeEach(() => {
  server = new Server()
  vi.stubGlobal('location', { origin: 'http://here', href: 'http://here/' })
  vi.stubGlobal('fetch', (path: string) => Promise.resolve(new Response(JSON.stringify(server.answer(path)))))
  feed = new RowFeed<Numbered>(server.socket, 'frames', () => {})
})

afterEach(() => vi.unstubAllGlobals())

function shown(): [number | undefined, number | undefined] {
  return [feed.ring.first?.seq, feed.ring.last?.seq]
}

test('the newest rows are read, then those that come are followed', async () => {
  await feed.look(ALL)
  expect(shown()).toEqual([4_500, 4_999])
  expect(server.sent.at(-1)).toMatchObject({ type: 'view', after: 4_999, credit: 2 })
})

test('of an old row, those around it are shown, and more on both sides', async () => {
  await feed.look(ALL, 1_200)
  expect(feed.isOld).toBe(true)
  expect(shown()).toEqual([701, 1_700])
  expect(server.sent.filter(({ type }) => type === 'view')).toEqual([])
  await feed.older()
  await feed.newer()
  expect(shown()).toEqual([201, 2_200])
})

test('where the server answers before it has looked at all, it is asked to go on', async () => {
  server.patience = 300
  await feed.look({ ...ALL, filter: 'thousandth' })
  expect([feed.isWhole, ...shown()]).toEqual([false, 4_000, 4_000])
  await feed.older()
  expect([feed.isWhole, ...shown()]).toEqual([false, 3_000, 4_000])
  for (let row = 0; row < 4; row += 1) await feed.older()
  expect([feed.isWhole, ...shown()]).toEqual([true, 0, 4_000])
})

test('who reads on to the end follows again', async () => {
  await feed.look(ALL, 3_900)
  await feed.newer()
  await feed.newer()
  expect([feed.isOld, ...shown()]).toEqual([false, 3_401, 4_999])
  expect(server.sent.at(-1)).toMatchObject({ type: 'view', after: 4_999 })
})

test('from old rows, the newest are a step away', async () => {
  await feed.look(ALL, 10)
  feed.toNewest()
  await vi.waitFor(() => expect(server.sent.at(-1)).toMatchObject({ type: 'view', after: 4_999 }))
  expect([feed.isOld, ...shown()]).toEqual([false, 4_500, 4_999])
})

test('a row that does not match the filter, or is here, changes nothing', async () => {
  await feed.look({ ...ALL, filter: 'third' }, 100)
  expect([feed.isOld, feed.ring.last?.seq]).toEqual([false, 4_998])
  await feed.seek(4_950)
  expect(feed.isOld).toBe(false)
  await feed.seek(99)
  expect(feed.isOld).toBe(true)
})

test('rows that were not painted give no credit, and a pause holds back what was under way', async () => {
  await feed.look(ALL)
  server.listener({ type: 'view', view: server.view, ok: true })
  server.listener({ type: 'batch', view: server.view, rows: [{ seq: 5_000, ts_ns: 0 }], skipped: 7 })
  expect([feed.ring.last?.seq, feed.skipped]).toEqual([5_000, 7])
  feed.pause()
  server.listener({ type: 'batch', view: server.view, rows: [{ seq: 5_001, ts_ns: 0 }] })
  feed.painted()
  expect(feed.ring.last?.seq).toBe(5_000)
  expect(server.sent.at(-1)?.type).toBe('view')
  feed.resume()
  expect(feed.ring.last?.seq).toBe(5_001)
  expect(server.sent.at(-1)).toMatchObject({ type: 'more', credit: 2 })
})

test('a filter that fails on some rows says so, until there is another filter', async () => {
  const { answer } = server
  server.answer = (path) => ({ ...answer.call(server, path), warning: 'no number' })
  await feed.look({ ...ALL, filter: 'third' })
  expect(feed.warning).toBe('no number')
  server.answer = answer
  await feed.look(ALL)
  expect(feed.warning).toBeNull()
  server.listener({ type: 'view', view: server.view, ok: true })
  server.listener({ type: 'batch', view: server.view, rows: [], warning: 'no text' })
  expect(feed.warning).toBe('no text')
})

test('batches of the view before, still under way, add no rows to another filter and hide none of its history', async () => {
  await feed.look(ALL)
  const before = server.view
  server.listener({ type: 'view', view: before, ok: true })
  const late = (seq: number) => server.listener({ type: 'batch', view: before, rows: [{ seq, ts_ns: 0 }] })
  server.count = 5_010
  const looking = feed.look({ ...ALL, filter: 'third' })
  late(5_000) // before the answer: the history has rows up to 5,009
  await looking
  late(5_011)
  server.listener({ type: 'view', view: server.view, ok: true })
  late(5_012)
  const rows = Array.from({ length: feed.ring.length }, (_, index) => feed.ring.at(index)!.seq)
  expect(rows.filter((seq) => seq % 3 !== 0)).toEqual([])
  expect([rows.length, rows.at(-1)]).toEqual([PAGE, 5_007])
  expect(server.view).not.toBe(before)
})

test('batches held by a pause are not shown in another filter or range of time', async () => {
  await feed.look(ALL)
  server.listener({ type: 'view', view: server.view, ok: true })
  feed.pause()
  server.listener({ type: 'batch', view: server.view, rows: [{ seq: 5_000, ts_ns: 0 }] })
  await feed.look({ ...ALL, filter: 'thousandth', start: 0, end: 9_000 })
  feed.resume()
  expect(feed.ring.last?.seq).toBe(4_000)
})
