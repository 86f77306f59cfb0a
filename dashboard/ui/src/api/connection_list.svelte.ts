import { untrack } from 'svelte'
import { shownConnection, type Ended, type ShownConnection } from './connections'
import { get } from './http'

/** A connection, as the server lists it. */
interface Row {
  session: number
  connection: string
  protocol?: string
  user?: string
  vhost?: string
  upstream?: string
  product?: string
  name: string
  client: string
  since?: number
  end?: Ended
  ended?: string
  is_open: boolean
  state: string
  blocked: boolean | null
  channels: number | null
  consumers: number | null
  from_client: number | null
  from_server: number | null
}

export interface Changes {
  version: number
  is_whole: boolean
  open: number
  closed: number
  connections: Row[]
  /** What the values of `counters` are, behind the number of the connection. */
  counted: (keyof Row)[]
  counters: [number, ...unknown[]][]
  gone: number[]
}

/** Rows by number, brought up to date by what has changed since they were read last. */
export class KnownRows {
  version = 0
  readonly #rows = new Map<number, Row>()
  readonly #shown = new Map<number, ShownConnection>()

  take(changes: Changes): void {
    if (changes.is_whole) {
      this.#rows.clear()
      this.#shown.clear()
    }
    for (const number of changes.gone) {
      this.#rows.delete(number)
      this.#shown.delete(number)
    }
    for (const row of changes.connections) this.#put(row)
    for (const [number, ...values] of changes.counters) {
      const row = this.#rows.get(number)
      if (row) this.#put({ ...row, ...Object.fromEntries(changes.counted.map((name, index) => [name, values[index]])) })
    }
    this.version = changes.version
  }

  /** All, in the order of their numbers. */
  get all(): ShownConnection[] {
    return [...this.#shown.values()].sort((one, other) => one.number - other.number)
  }

  #put(row: Row): void {
    const { client, since, from_client, from_server, blocked, channels, consumers, ...rest } = row
    this.#rows.set(row.session, row)
    const known = {
      ...rest,
      connected_at: since ?? null,
      blocked: blocked ?? false,
      ...(channels === null ? {} : { channels }),
      ...(consumers === null ? {} : { consumers }),
      ...(from_client === null ? {} : { bytes: { client: from_client, server: from_server ?? 0 } }),
    }
    this.#shown.set(row.session, { ...shownConnection(known), clientName: client })
  }
}

/** The connections of a source, asked for again and again while the page is seen: only what has changed is sent. */
export class ConnectionList {
  all: ShownConnection[] = $state.raw([])
  open = $state(0)
  closed = $state(0)
  failure: string | null = $state(null)
  isRead = $state(false)

  /** To be made while a component is. `asked` returns null where nothing is to be asked. */
  constructor(asked: () => { source: number; closed: boolean } | null, seconds: number) {
    $effect(() => {
      const question = asked()
      if (question === null) return
      const rows = new KnownRows()
      const abort = new AbortController()
      let timer: ReturnType<typeof setTimeout> | undefined
      const ask = async () => {
        if (!document.hidden) {
          try {
            const path = `/sources/${question.source}/connections/changes`
            const changes = await get<Changes>(path, { after: rows.version, closed: question.closed }, abort.signal)
            rows.take(changes)
            this.all = rows.all
            this.open = changes.open
            this.closed = changes.closed
            this.failure = null
            this.isRead = true
          } catch (problem) {
            if (abort.signal.aborted) return
            this.failure = (problem as Error).message
          }
        }
        if (!abort.signal.aborted) timer = setTimeout(ask, seconds * 1000)
      }
      untrack(() => void ask())
      return () => {
        abort.abort()
        clearTimeout(timer)
      }
    })
  }
}
