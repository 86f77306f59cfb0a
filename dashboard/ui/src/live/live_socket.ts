/** The one WebSocket of the page. It connects again, later and later, for as long as the page is open. */

export type SocketStatus = 'connecting' | 'open' | 'lost'

export interface ViewRequest {
  view: string
  source: number
  what: 'frames' | 'messages' | 'findings'
  filter: string
  after: number | null
}

export interface Batch {
  type: 'batch'
  view: string
  rows: unknown[]
  skipped?: number
  newest?: number
  seq?: number | null
  /** Why the filter fails on some rows, which are shown; told once. */
  warning?: string | null
}

export interface ViewAnswer {
  type: 'view'
  view: string
  ok: boolean
  text?: string
  at?: number
}

export type Arrival = Batch | ViewAnswer | { type: string; [key: string]: unknown }

/** Batches that may be under way: the second travels while the first is painted. */
export const CREDIT = 2
/** Rows that are older than this, in seconds, when their turn comes are skipped: a live view shows what is. */
export const MAX_AGE = 0.5
const FIRST_DELAY = 500
const LONGEST_DELAY = 10_000

/** How long to wait before the next attempt, in milliseconds. */
export function delayBefore(attempt: number): number {
  return Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.max(0, attempt - 1))
}

export class LiveSocket {
  status: SocketStatus = 'connecting'
  /** When the next attempt is made, in milliseconds since 1970; null while there is none to wait for. */
  retryAt: number | null = null
  #socket: WebSocket | null = null
  #attempts = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #listeners = new Set<(arrival: Arrival) => void>()
  #watchers = new Set<(status: SocketStatus) => void>()

  constructor(readonly url: string) {}

  connect(): void {
    clearTimeout(this.#timer)
    this.retryAt = null
    const socket = new WebSocket(this.url)
    this.#socket = socket
    socket.onopen = () => {
      this.#attempts = 0
      this.#become('open')
    }
    socket.onmessage = (event) => {
      const arrival = JSON.parse(event.data as string) as Arrival
      for (const listener of this.#listeners) listener(arrival)
    }
    socket.onclose = () => {
      if (this.#socket !== socket) return
      this.#attempts += 1
      const delay = delayBefore(this.#attempts)
      this.retryAt = Date.now() + delay
      this.#timer = setTimeout(() => this.connect(), delay)
      this.#become('lost')
    }
  }

  /** Try at once. */
  retry(): void {
    if (this.status === 'lost') this.connect()
  }

  send(message: unknown): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }

  onArrival(listener: (arrival: Arrival) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  onStatus(watcher: (status: SocketStatus) => void): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  #become(status: SocketStatus): void {
    this.status = status
    for (const watcher of this.#watchers) watcher(status)
  }
}
