export type Theme = 'auto' | 'light' | 'dark'

const STORED = 'amqproxy.theme'
const NEXT: Record<Theme, Theme> = { auto: 'light', light: 'dark', dark: 'auto' }

function stored(): Theme {
  const text = localStorage.getItem(STORED)
  return text === 'light' || text === 'dark' ? text : 'auto'
}

/** Light or dark: as the system has it, unless the reader chooses. */
class ThemeChoice {
  chosen: Theme = $state(stored())
  /** What is shown: read it in an effect to paint anew after a change. */
  shown: 'light' | 'dark' = $state('light')
  #system = matchMedia('(prefers-color-scheme: dark)')

  constructor() {
    this.#system.addEventListener('change', () => this.#apply())
    this.#apply()
  }

  next(): void {
    this.chosen = NEXT[this.chosen]
    localStorage.setItem(STORED, this.chosen)
    this.#apply()
  }

  #apply(): void {
    this.shown = this.chosen === 'auto' ? (this.#system.matches ? 'dark' : 'light') : this.chosen
    document.documentElement.dataset.theme = this.shown
  }
}

export const theme = new ThemeChoice()

/** A colour of the theme that is shown, for what is painted on a canvas. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
}
