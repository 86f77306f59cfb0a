/** Temporary rules that this page has made: what it waits for, and when to look again. */
class Temporary {
  /** The rule that is to hold one command, which is shown as soon as it is held. */
  awaited: { source: number; rule: string } | null = $state.raw(null)
  /** Grows when a rule was added or ended. */
  changed = $state(0)
}

export const temporary = new Temporary()
