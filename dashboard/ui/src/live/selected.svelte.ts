import { get } from '../api/http'
import { router } from '../routing/router.svelte'

/** While a key is held down, only the row that it ends on is read. */
const DELAY = 40

/** All that the server knows of the row that the URL selects. */
export class Selected<Detail> {
  detail: Detail | null = $state.raw(null)
  failure = $state('')

  /** To be made while a component is. */
  constructor(what: 'frames' | 'messages') {
    const source = $derived(router.query.source)
    const seq = $derived(router.query.seq)
    $effect(() => {
      if (seq === null) {
        this.detail = null
        this.failure = ''
        return
      }
      const abort = new AbortController()
      const timer = setTimeout(() => {
        get<Detail>(`/sources/${source}/${what}/${seq}`, {}, abort.signal).then(
          (found) => {
            this.detail = found
            this.failure = ''
          },
          (problem: Error) => {
            if (abort.signal.aborted) return
            this.detail = null
            this.failure = problem.message
          },
        )
      }, DELAY)
      return () => {
        clearTimeout(timer)
        abort.abort()
      }
    })
  }
}
