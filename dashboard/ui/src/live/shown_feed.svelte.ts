import { onMount, untrack } from 'svelte'
import { router } from '../routing/router.svelte'
import { live } from './live.svelte'
import { Painter } from './painter'
import { RowFeed, type FilterError, type Numbered } from './row_feed'

/** A list that shows rows as they come in: painted once per animation frame. */
export interface Shows {
  paint: () => void
  reset: () => void
}

/**
 * A feed of rows as a screen shows it: it follows the URL's source, filter and range of time, and keeps what a reader
 * sees of its state. The rows are no part of that state.
 */
export class ShownFeed<Row extends Numbered> {
  readonly feed: RowFeed<Row>
  list: Shows | undefined
  paused = $state(false)
  loading = $state(true)
  isEmpty = $state(true)
  isRange = $state(false)
  isOld = $state(false)
  isBehind = $state(false)
  skipped = $state(0)
  wrong: FilterError | null = $state.raw(null)
  warning: string | null = $state(null)
  failure: string | null = $state(null)
  #painter: Painter

  /** To be made while a component is. */
  constructor(what: 'frames' | 'messages' | 'findings', narrowed: () => string = () => router.query.filter) {
    this.#painter = new Painter(() => {
      this.list?.paint()
      this.feed.painted()
      this.#show()
    })
    this.feed = new RowFeed<Row>(live.socket, what, () => this.#painter.ask())
    // Each by itself: who selects another row has another query, and looks at the same list.
    const source = $derived(router.query.source)
    const start = $derived(router.query.start)
    const end = $derived(router.query.end)
    const filter = $derived(narrowed())
    const faults = $derived(router.query.faults === '1')
    const seq = $derived(router.query.seq)
    $effect(() => {
      const looked = { source, filter, faults, start, end }
      untrack(() => {
        void this.feed.look(looked, seq)
        this.list?.reset()
      })
    })
    $effect(() => {
      const wanted = seq
      if (wanted !== null) untrack(() => void this.feed.seek(wanted))
    })
    onMount(() => {
      const timer = setInterval(() => this.#show(), 1000)
      return () => {
        clearInterval(timer)
        this.#painter.stop()
        this.feed.close()
      }
    })
  }

  toggle(): void {
    if (this.feed.paused) this.feed.resume()
    else this.feed.pause()
  }

  #show(): void {
    const { feed } = this
    this.paused = feed.paused
    this.loading = feed.loading
    this.isEmpty = feed.ring.length === 0
    this.isRange = feed.isRange
    this.isOld = feed.isOld
    this.wrong = feed.wrong
    this.warning = feed.warning
    this.failure = feed.failure
    this.skipped = feed.skipped
    this.isBehind = Date.now() - feed.skippedAt < 5000
  }
}
