import { get, put, remove } from '../api/http'

type Answer = { marks: Record<string, string> }

/** Comments on frames, which all who look at a source share. */
export class Marks {
  texts: Record<string, string> = $state.raw({})

  constructor(readonly source: number) {}

  /** Read them, as those of a capture are known when it has been read. */
  read(): void {
    this.#take(get<Answer>(`/sources/${this.source}/marks`)).catch(() => undefined) // then none are shown
  }

  of(seq: number | null): string | undefined {
    return seq === null ? undefined : this.texts[seq]
  }

  put(seq: number, text: string): Promise<void> {
    return this.#take(put<Answer>(`/sources/${this.source}/marks/${seq}`, { text }))
  }

  remove(seq: number): Promise<void> {
    return this.#take(remove<Answer>(`/sources/${this.source}/marks/${seq}`))
  }

  async #take(answer: Promise<Answer>): Promise<void> {
    this.texts = (await answer).marks
  }
}
