import { get } from '../api/http'
import { router } from '../routing/router.svelte'
import type { Column } from './row_painter'

export interface Client {
  name: string
  user: string
}

interface Known extends Client {
  at: number
}

/** So many are remembered, and so long: a name may become known later than its connection. */
const MOST = 5000
const FRESH = 20_000
const AT_ONCE = 200
const DELAY = 150

/** Who is behind the number of a connection; asked of the server where it is shown first, many at once. */
export class Clients {
  /** Grows when names have come, so that what shows them is painted again. */
  version = $state(0)
  readonly #known = new Map<string, Known>()
  readonly #wanted = new Map<number, Set<number>>()
  #timer: ReturnType<typeof setTimeout> | undefined

  of(source: number, stream: number | undefined): Client | null {
    if (stream === undefined || stream < 0) return null
    const found = this.#known.get(`${source}/${stream}`)
    if (!found || Date.now() - found.at > FRESH) this.#want(source, stream)
    return found?.name ? found : null
  }

  #want(source: number, stream: number): void {
    const wanted = this.#wanted.get(source) ?? new Set()
    if (wanted.size >= AT_ONCE) return
    this.#wanted.set(source, wanted.add(stream))
    this.#timer ??= setTimeout(() => void this.#ask(), DELAY)
  }

  async #ask(): Promise<void> {
    const wanted = [...this.#wanted]
    this.#wanted.clear()
    this.#timer = undefined
    for (const [source, streams] of wanted) {
      let clients: Record<string, [string, string]> = {}
      try {
        const answer = await get<{ clients: typeof clients }>(`/sources/${source}/connections/clients`, { sessions: [...streams].join() })
        clients = answer.clients
      } catch {
        // It is asked again, once it is shown again.
      }
      for (const stream of streams) this.#keep(`${source}/${stream}`, clients[stream])
    }
    this.version += 1
  }

  #keep(key: string, found: [string, string] | undefined): void {
    const before = this.#known.get(key)
    this.#known.delete(key)
    this.#known.set(key, { name: found?.[0] ?? before?.name ?? '', user: found?.[1] ?? before?.user ?? '', at: Date.now() })
    if (this.#known.size > MOST) this.#known.delete(this.#known.keys().next().value!)
  }
}

export const clients = new Clients()

/** A column of a list with the name of the client of each row. */
export function clientColumn<Row extends { stream: number }>(): Column<Row> {
  return { title: 'Client', width: 'minmax(50px, 0.6fr)', text: (row) => clients.of(router.query.source, row.stream)?.name ?? '' }
}
