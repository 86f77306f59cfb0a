/** A line about what was just done, or why it was not. */
class Toast {
  text = $state('')
  isBad = $state(false)
  #timer: ReturnType<typeof setTimeout> | undefined

  say(text: string, isBad = false): void {
    clearTimeout(this.#timer)
    this.text = text
    this.isBad = isBad
    this.#timer = setTimeout(() => (this.text = ''), isBad ? 12_000 : 5000)
  }

  /** Do something, and say how it went. Returns whether it went well. */
  async do(what: () => Promise<unknown>, done: string): Promise<boolean> {
    try {
      await what()
      this.say(`✓ ${done}`)
      return true
    } catch (problem) {
      this.say(`✕ ${(problem as Error).message}`, true)
      return false
    }
  }

  clear(): void {
    this.text = ''
  }
}

export const toast = new Toast()
