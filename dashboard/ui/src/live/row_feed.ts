import { get, listed, Problem } from '../api/http'
import { CREDIT, MAX_AGE, type Arrival, type Batch, type LiveSocket, type ViewAnswer } from './live_socket'
import { Ring } from './ring'

/** A page of rows: of those before, or behind, `searched` there may be more. */
interface Answer {
  next?: number
  has_more?: boolean
  warning?: string | null
  searched?: number
}

export interface Numbered {
  seq: number
  ts_ns: number
}

export interface Looked {
  source: number
  filter: string
  /** Whether rows without a command, such as abnormal closes, are shown beside those that match. */
  faults: boolean
  start: number | null
  end: number | null
}

export interface FilterError {
  text: string
  /** The column in the filter, from 0; null where it is the whole. */
  at: number | null
}

/** Rows that the page keeps: older ones are read again from the server's ring. */
export const CAPACITY = 50_000
export const PAGE = 500

/**
 * The rows that one screen shows: first what the server has, then what passes.
 *
 * It is no reactive state: thousands of rows a second come in here. A screen paints it when `ring.version` or `version`
 * has grown, and calls `painted`: only then is the server given credit for another batch.
 */
export class RowFeed<Row extends Numbered> {
  readonly ring = new Ring<Row>(CAPACITY)
  /** Grows when anything but the rows changes. */
  version = 0
  paused = false
  loading = false
  /** Whether the server has nothing older. */
  isWhole = false
  /** Whether these are rows around an old one, so that there are newer ones that are not here. */
  isOld = false
  wrong: FilterError | null = null
  /** Why the filter fails on some rows, which are shown. */
  warning: string | null = null
  /** Another problem of the server, in words. */
  failure: string | null = null
  /** Rows that were skipped, in all; and when last, in milliseconds since 1970. */
  skipped = 0
  skippedAt = 0
  /** When the last rows came, in milliseconds since 1970. */
  arrivedAt = 0
  looked: Looked | null = null
  #owed = 0
  /** Up to which row the server has looked for those that match. */
  #looked = -1
  /** The row whose surroundings the last look was for, if any. */
  #around: number | null = null
  /** What had credit when it was paused, and came since: two batches at most. */
  #held: Batch[] = []
  /** Name of the view on the server that this feed follows; null while it follows none. Each has a new name, so that
   * batches of an earlier view, which were under way when that one ended, are told from this one's. */
  #view: string | null = null
  #viewCount = 0
  #abort = new AbortController()
  #stop: (() => void)[] = []

  constructor(
    readonly socket: LiveSocket,
    readonly what: 'frames' | 'messages' | 'findings',
    readonly changed: () => void,
  ) {
    this.#stop.push(socket.onArrival((arrival) => this.#take(arrival)))
    this.#stop.push(
      socket.onStatus((status) => {
        if (status === 'open' && this.looked) void this.#catchUp()
        this.#change()
      }),
    )
  }

  /** The last row that was looked at, whether it matched or not: what follows is behind it. */
  get #reached(): number {
    return Math.max(this.ring.last?.seq ?? -1, this.#looked)
  }

  get isRange(): boolean {
    return this.looked !== null && (this.looked.start !== null || this.looked.end !== null)
  }

  /** Show something else, from the beginning: the newest rows, or those around this one. */
  async look(looked: Looked, seq: number | null = null): Promise<void> {
    this.#begin(looked)
    this.#around = seq
    if ((await this.#load({})) === null) return
    if (seq !== null && (await this.#turnTo(seq))) return
    // What passed while that was read would be too old for a live view: it is read as well, unless it is too much.
    for (let round = 0; round < 3 && !this.isRange; round += 1) {
      const after = this.#reached
      const more = await this.#load(after < 0 ? {} : { after })
      if (more === null) return
      if (more < 20) break
    }
    this.#follow()
  }

  /** Show the rows around this one, if it matches and is not here already. */
  async seek(seq: number): Promise<void> {
    if (!this.loading && this.ring.length) await this.#turnTo(seq)
  }

  /** Of old rows, read those behind the last; once there are no more, follow. */
  async newer(): Promise<void> {
    const last = this.ring.last
    if (!this.isOld || this.loading || !last) return
    const count = await this.#load({ after: last.seq })
    if (count === null || count >= PAGE) return
    this.isOld = false
    this.#follow()
  }

  /** Back to the newest rows. */
  toNewest(): void {
    if (this.isOld && this.looked) void this.look(this.looked)
  }

  pause(): void {
    this.paused = true
    this.#change()
  }

  resume(): void {
    this.paused = false
    for (const batch of this.#held.splice(0)) this.#add(batch)
    this.#change()
    this.painted()
  }

  /** The batches that came have been painted: as many more may come. */
  painted(): void {
    if (this.paused || this.#owed === 0 || this.#view === null) return
    this.socket.send({ type: 'more', view: this.#view, credit: this.#owed })
    this.#owed = 0
  }

  /** Read the rows before the first one; returns how many there are more. */
  async older(): Promise<number> {
    const first = this.ring.first
    if (!first || this.loading || this.isWhole || !this.looked) return 0
    return (await this.#load({ before: first.seq })) ?? 0
  }

  close(): void {
    this.#abort.abort()
    this.#unfollow()
    for (const stop of this.#stop) stop()
  }

  #begin(looked: Looked): void {
    this.#abort.abort()
    this.#abort = new AbortController()
    this.looked = looked
    this.ring.clear()
    this.skipped = 0
    this.skippedAt = 0
    this.wrong = null
    this.warning = null
    this.failure = null
    this.isWhole = false
    this.isOld = false
    this.#looked = -1
    this.#unfollow()
  }

  /** End the view: neither its held batches nor those still under way belong to what is shown next. */
  #unfollow(): void {
    if (this.#view !== null) this.socket.send({ type: 'end', view: this.#view })
    this.#view = null
    this.#held = []
    this.#owed = 0
  }

  /** Have the rows around one that is older than all that are here; false where it is not, or does not match. */
  async #turnTo(seq: number): Promise<boolean> {
    const first = this.ring.first
    if (!first || this.isWhole || seq >= first.seq) return false
    const { signal } = this.#abort
    const before = await this.#page({ before: seq + 1 }).catch(() => null)
    if (signal.aborted) return true
    if (!before?.rows.some((row) => row.seq === seq)) return false
    this.#begin(this.looked!)
    this.isOld = true
    this.isWhole = !before.more
    this.ring.push(before.rows)
    await this.#load({ after: seq })
    return true
  }

  /** Rows of the server's ring. It answers in time with what it has found; where it can go on, it does. */
  async #page(place: { before?: number; after?: number }): Promise<{ rows: Row[]; next: number; more: boolean }> {
    const { source, filter, faults, start, end } = this.looked!
    const path = `/sources/${source}/${this.what}`
    let rows: Row[] = []
    for (;;) {
      const answer = await get<Answer>(path, { filter, faults: faults || null, start, end, limit: PAGE, ...place }, this.#abort.signal)
      const { next = 0, has_more: more = false, searched } = answer
      this.warning ??= answer.warning ?? null
      const isForwards = place.after !== undefined
      rows = isForwards ? [...rows, ...listed<Row>(answer, 'rows')] : [...listed<Row>(answer, 'rows'), ...rows]
      const isEnough = isForwards ? rows.length >= PAGE : rows.length > 0
      if (!more || isEnough || searched === undefined) return { rows, next, more }
      place = isForwards ? { after: searched } : { before: searched }
    }
  }

  /** Rows from the server's ring: how many; null where that has failed. */
  async #load(place: { before?: number; after?: number }): Promise<number | null> {
    const { filter } = this.looked!
    const { signal } = this.#abort
    this.loading = true
    this.#change()
    try {
      const { rows, next, more } = await this.#page(place)
      if (place.before === undefined) {
        this.#looked = place.after !== undefined && rows.length >= PAGE ? rows.at(-1)!.seq : next - 1
      }
      if (place.before !== undefined) {
        const added = this.ring.unshift(rows)
        this.isWhole = !more || rows.length === 0 || added < rows.length
        return added
      }
      this.ring.merge(rows, (row) => row.seq)
      if (place.after === undefined) this.isWhole = !more
      if (rows.length) this.arrivedAt = Date.now()
      return rows.length
    } catch (problem) {
      if (signal.aborted) return null
      if (problem instanceof Problem && problem.status >= 400 && problem.status < 500 && filter) {
        this.wrong = { text: problem.message, at: problem.at }
      } else {
        this.failure = String((problem as Error).message)
      }
      return null
    } finally {
      if (!signal.aborted) {
        this.loading = false
        this.#change()
      }
    }
  }

  /** The number of the newest row that the server has. */
  async #newest(): Promise<number | null> {
    try {
      const answer = await get<unknown>(`/sources/${this.looked!.source}/${this.what}`, { limit: 1 })
      return listed<Row>(answer, 'rows').at(-1)?.seq ?? null
    } catch {
      return null
    }
  }

  #follow(): void {
    if (this.isRange || !this.looked) return
    const { source, filter, faults } = this.looked
    this.#unfollow()
    this.#viewCount += 1
    this.#view = `${this.what} ${this.#viewCount}`
    const after = this.#reached // -1 where there was nothing: then from the first row on
    this.socket.send({
      type: 'view', view: this.#view, source, what: this.what, filter, faults, after, credit: this.paused ? 0 : CREDIT, max_age: MAX_AGE,
    })
    if (this.paused) this.#owed = CREDIT
  }

  /** The page has been cut off, and is connected again: go on behind the last row that it has. */
  async #catchUp(): Promise<void> {
    if (this.wrong || this.isRange || this.isOld) return
    this.failure = null
    if (this.ring.length === 0) {
      await this.look(this.looked!, this.#around) // perhaps the first look, which is still under way
      return
    }
    const newest = await this.#newest()
    // Where the dashboard's server was started anew, it numbers its rows from the beginning.
    if (newest === null || newest < this.#reached) await this.look(this.looked!)
    else this.#follow()
  }

  #take(arrival: Arrival): void {
    if (this.#view === null || (arrival as ViewAnswer).view !== this.#view) return
    if (arrival.type === 'view') {
      const answer = arrival as ViewAnswer
      if (!answer.ok) this.wrong = { text: answer.text ?? 'The filter is not valid.', at: answer.at ?? null }
      this.#change()
    } else if (arrival.type === 'batch') {
      if (this.paused) this.#held.push(arrival as Batch)
      else this.#add(arrival as Batch)
    }
  }

  #add(batch: Batch): void {
    this.#owed += 1
    this.warning ??= batch.warning ?? null
    if (batch.skipped) {
      this.skipped += batch.skipped
      this.skippedAt = Date.now()
    }
    this.ring.merge(batch.rows as Row[], (row) => row.seq)
    this.arrivedAt = Date.now()
    this.#change()
  }

  #change(): void {
    this.version += 1
    this.changed()
  }
}
