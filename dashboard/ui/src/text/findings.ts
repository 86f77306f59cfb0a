const KIND = 'kind:'

/** The kind to which words narrow findings, if they do. */
export function kindOf(words: string): string | null {
  const found = words.split(/\s+/).find((each) => each.startsWith(KIND))
  return found ? found.slice(KIND.length) : null
}

/** Words that leave out the muted kinds as well, unless one of these is asked for. */
export function unmuted(words: string, muted: readonly string[]): string {
  const asked = kindOf(words)
  return [words, ...muted.filter((each) => each !== asked).map((each) => `-${KIND}${each}`)].filter(Boolean).join(' ')
}
