/** A key, and what it does. */
export interface Key {
  /** As `KeyboardEvent.key` has it; two, one after the other, with a space between them. */
  key: string
  text: string
  run: () => void
}

const STORED = 'amqproxy.single-keys'

/** Which keys do something now: those of the page, and those of the screen that is shown. */
class Keys {
  everywhere: Key[] = $state.raw([])
  here: Key[] = $state.raw([])
  /** Single keys can be switched off, for who speaks instead of typing. */
  isOn = $state(localStorage.getItem(STORED) !== 'off')
  #prefix = ''
  #prefixAt = 0

  switch(isOn: boolean): void {
    this.isOn = isOn
    localStorage.setItem(STORED, isOn ? 'on' : 'off')
  }

  press(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !this.isOn) return
    const target = event.target as HTMLElement
    if (target.closest('input, textarea, select, [contenteditable], dialog')) return
    // Where the button that had the focus is gone, the target is the page behind the dialog.
    if (document.querySelector('dialog:modal')) return
    if (event.key === 'Shift') return
    const prefix = Date.now() - this.#prefixAt < 1500 ? this.#prefix : ''
    this.#prefix = ''
    const pressed = prefix ? `${prefix} ${event.key}` : event.key
    const all = [...this.here, ...this.everywhere]
    const found = all.find((each) => each.key === pressed)
    if (found) {
      event.preventDefault()
      found.run()
    } else if (all.some((each) => each.key.startsWith(`${pressed} `))) {
      this.#prefix = event.key
      this.#prefixAt = Date.now()
    }
  }
}

export const keys = new Keys()

/** The keys of a screen, for as long as it is shown: to be returned from its `onMount`. */
export function screenKeys(here: Key[]): () => void {
  keys.here = here
  return () => {
    if (keys.here === here) keys.here = []
  }
}
