import { get, listed, Problem } from '../api/http'
import type { Source } from '../api/types'
import { LiveSocket, type Arrival, type SocketStatus } from './live_socket'
import { SampleSeries, type Sample } from './samples'

function liveUrl(): string {
  return `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/v1/live`
}

/** What all screens share: the sources, the connection with the server, and a look at the figures each second. */
class Live {
  readonly socket = new LiveSocket(liveUrl())
  sources: Source[] = $state.raw([])
  isKnown = $state(false)
  /** Whether the server wants to be told a token or a password first. */
  needsLogin = $state(false)
  status: SocketStatus = $state('connecting')
  retryAt: number | null = $state(null)
  /** When a source was last seen to have been started anew, in milliseconds since 1970. */
  restartedAt: number | null = $state(null)
  /** Grows with each sample of any source. */
  sampled = $state(0)
  #series = new Map<number, SampleSeries>()

  constructor() {
    this.socket.onStatus((status) => {
      this.status = status
      this.retryAt = this.socket.retryAt
    })
    this.socket.onArrival((arrival) => this.#take(arrival))
  }

  /** Find out what there is, and follow it. */
  async start(): Promise<void> {
    try {
      this.#become(listed<Source>(await get('/sources'), 'sources'))
      this.needsLogin = false
    } catch (problem) {
      this.needsLogin = problem instanceof Problem && problem.status === 401
      if (this.needsLogin) return
    }
    this.socket.connect()
  }

  source(id: number): Source | undefined {
    return this.sources.find((each) => each.id === id)
  }

  series(id: number): SampleSeries {
    let series = this.#series.get(id)
    if (!series) this.#series.set(id, (series = new SampleSeries()))
    return series
  }

  can(id: number, request: string): boolean {
    const source = this.source(id)
    if (!source || source.read_only) return false
    return source.kind === 'proxy' && (source.can === undefined || source.can.includes(request))
  }

  #take(arrival: Arrival): void {
    if (arrival.type === 'sources') this.#become(listed<Source>(arrival, 'sources'))
    else if (arrival.type === 'sample') {
      const sample = arrival as unknown as Sample & { source: number }
      this.series(sample.source).push(sample)
      this.sampled += 1
    }
  }

  #become(sources: Source[]): void {
    for (const source of sources) {
      const before = this.source(source.id)
      if (before && (source.restarts ?? 0) > (before.restarts ?? 0)) this.restartedAt = Date.now()
    }
    this.sources = sources
    this.isKnown = true
  }
}

export const live = new Live()
