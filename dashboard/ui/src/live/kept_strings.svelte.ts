const MOST = 50

function read(key: string): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key) ?? '[]')
    return Array.isArray(found) ? found.filter((each): each is string => typeof each === 'string').slice(0, MOST) : []
  } catch {
    return []
  }
}

/** Words that a reader has chosen, kept in this browser: the newest first. */
class KeptStrings {
  all: string[] = $state.raw([])
  readonly #key: string

  constructor(key: string) {
    this.#key = key
    this.all = read(key)
  }

  has(word: string): boolean {
    return this.all.includes(word)
  }

  /** Keep a word, or forget it. */
  toggle(word: string): void {
    this.#become(this.has(word) ? this.all.filter((each) => each !== word) : [word, ...this.all].slice(0, MOST))
  }

  clear(): void {
    this.#become([])
  }

  #become(words: string[]): void {
    this.all = words
    try {
      localStorage.setItem(this.#key, JSON.stringify(words))
    } catch {
      // Storage may be full, or forbidden: then they last as long as the page.
    }
  }
}

/** Filters that were saved; a URL shares one. */
export const savedFilters = new KeptStrings('amqproxy.filters')

/** Kinds of findings that this reader does not want to see. */
export const mutedKinds = new KeptStrings('amqproxy.findings.muted')
