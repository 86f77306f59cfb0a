import { untrack } from 'svelte'
import { get, Problem, type Parameters } from './http'

/** What the server answers to a question that is asked again and again, while the page is seen. */
export class Polled<Answer> {
  answer = $state.raw<Answer | null>(null)
  failure: string | null = $state(null)
  /** Whether the server does not know the question, or cannot answer it for this source. */
  isUnknown = $state(false)
  isAsking = $state(false)
  #again = $state(0)

  /** To be made while a component is. `asked` returns null where nothing is to be asked; without `seconds` it is asked once. */
  constructor(asked: () => [path: string, parameters?: Parameters] | null, seconds: number | null) {
    $effect(() => {
      const question = asked()
      void this.#again
      if (question === null) return
      const abort = new AbortController()
      let timer: ReturnType<typeof setTimeout> | undefined
      const ask = async () => {
        if (!document.hidden || seconds === null) {
          this.isAsking = true
          try {
            this.answer = await get<Answer>(question[0], question[1] ?? {}, abort.signal)
            this.failure = null
            this.isUnknown = false
          } catch (problem) {
            if (abort.signal.aborted) return
            this.failure = (problem as Error).message
            this.isUnknown = problem instanceof Problem && [404, 405, 409, 501].includes(problem.status)
          }
          this.isAsking = false
        }
        if (!abort.signal.aborted && seconds !== null) timer = setTimeout(ask, seconds * 1000)
      }
      untrack(() => void ask())
      return () => {
        abort.abort()
        clearTimeout(timer)
      }
    })
  }

  /** Ask at once. */
  again(): void {
    this.#again += 1
  }
}
