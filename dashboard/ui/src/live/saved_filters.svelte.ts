const STORED = 'amqproxy.filters'
const MOST = 50

function read(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(STORED) ?? '[]')
    return Array.isArray(found) ? found.filter((each): each is string => typeof each === 'string').slice(0, MOST) : []
  } catch {
    return []
  }
}

/** Filters that were kept in this browser; a URL shares one. */
class SavedFilters {
  all: string[] = $state.raw(read())

  has(filter: string): boolean {
    return this.all.includes(filter)
  }

  /** Keep a filter, or forget it. */
  toggle(filter: string): void {
    this.all = this.has(filter) ? this.all.filter((each) => each !== filter) : [filter, ...this.all].slice(0, MOST)
    try {
      localStorage.setItem(STORED, JSON.stringify(this.all))
    } catch {
      // Storage may be full, or forbidden: then they last as long as the page.
    }
  }
}

export const savedFilters = new SavedFilters()
