/** What a reader has chosen for the lists of one kind: columns that are hidden, and words whose rows are coloured. */
export interface ListChoices {
  hidden: string[]
  /** A word for each colour; empty where it is not used. */
  words: string[]
}

export const TINTS = ['green', 'violet', 'amber', 'red'] as const

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.map((each) => (typeof each === 'string' ? each : '')) : []
}

/** The choices that were stored, whatever else is in that place. */
export function parseChoices(text: string | null): ListChoices {
  let found: { hidden?: unknown; words?: unknown } = {}
  try {
    found = (JSON.parse(text ?? '{}') ?? {}) as typeof found
  } catch {
    // Somebody else has stored something there.
  }
  const words = strings(found.words)
  return { hidden: strings(found.hidden).filter(Boolean), words: TINTS.map((_, index) => words[index] ?? '') }
}

/** The class of a row that has one of the words, in any case; the first word wins. */
export function tintOf(row: unknown, words: readonly string[]): string {
  if (!words.some((each) => each.trim())) return ''
  const text = JSON.stringify(row).toLowerCase()
  const found = words.findIndex((each) => each.trim() && text.includes(each.trim().toLowerCase()))
  return found < 0 ? '' : `tint-${TINTS[found]}`
}

/** Kept in this browser. */
export class KeptChoices {
  chosen: ListChoices = $state.raw(parseChoices(null))
  readonly #key: string

  constructor(list: string) {
    this.#key = `amqproxy.list.${list}`
    this.chosen = parseChoices(localStorage.getItem(this.#key))
  }

  change(change: Partial<ListChoices>): void {
    this.chosen = { ...this.chosen, ...change }
    try {
      localStorage.setItem(this.#key, JSON.stringify(this.chosen))
    } catch {
      // Storage may be full, or forbidden: then they last as long as the page.
    }
  }
}
