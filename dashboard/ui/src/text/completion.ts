/** What a filter can be completed with, as the server has it. */
export interface Vocabulary {
  fields: { path: string; kind: string; meaning: string }[]
  values: { [path: string]: string[] }
}

export interface Completion {
  /** What is put between `from` and the caret. */
  insert: string
  label: string
  meaning: string
}

export interface Completions {
  from: number
  items: Completion[]
}

const MOST = 12
export const NOTHING: Completions = { from: 0, items: [] }

/** A path, an operator, and the beginning of a value: `exchange == "or`. */
const VALUE = /([A-Za-z_][\w.]*)\s*(?:==|!=)\s*(["']?)([^"']*)$/
/** A value within `exchange in ["a", "or`. */
const LISTED = /([A-Za-z_][\w.]*)\s+in\s+\[[^\]]*?(["']?)([^"',\][]*)$/
const WORD = /[A-Za-z_][\w.]*$/

/** Values that contain what was typed; those that begin with it come first. */
export function matching<Item>(items: readonly Item[], typed: string, text: (item: Item) => string): Item[] {
  const wanted = typed.toLowerCase()
  const begins = items.filter((each) => text(each).toLowerCase().startsWith(wanted))
  const contains = items.filter((each) => !begins.includes(each) && text(each).toLowerCase().includes(wanted))
  return [...begins, ...contains].slice(0, MOST)
}

/** What may stand where the caret is in a filter, which begins at `start` of a larger text. */
export function completionsAt(text: string, caret: number, vocabulary: Vocabulary, start = 0): Completions {
  const { from, items } = completionsOf(text, caret, vocabulary)
  return { from: start + from, items }
}

function completionsOf(text: string, caret: number, vocabulary: Vocabulary): Completions {
  const before = text.slice(0, caret)
  const value = VALUE.exec(before) ?? LISTED.exec(before)
  if (value) {
    const [, path, quote, typed] = value as unknown as [string, string, string, string]
    const known = vocabulary.values[path === 'connection_name' ? 'client.name' : path]
    if (!known) return NOTHING
    const from = caret - typed.length - quote.length
    const items = matching(known, typed, (each) => each).map((each) => ({ insert: JSON.stringify(each), label: each || '""', meaning: path }))
    return { from, items: items.filter((each) => each.insert !== before.slice(from)) }
  }
  const quotes = before.replace(/\\./g, '').match(/["']/g) ?? []
  if (quotes.length % 2 === 1) return NOTHING // within a text
  const typed = WORD.exec(before)?.[0] ?? ''
  if (!typed) return NOTHING
  const items = matching(vocabulary.fields, typed, (each) => each.path)
    .filter((each) => each.path !== typed)
    .map((each) => ({ insert: each.path + (each.kind === 'a text' ? ' == ' : ''), label: each.path, meaning: each.meaning }))
  return { from: caret - typed.length, items: [...items, ...valuesOf(typed, vocabulary)].slice(0, MOST) }
}

/** The option after an arrow key; -1 is none, between the last and the first. */
export function stepped(chosen: number, key: string, count: number): number {
  return ((chosen + 1 + (key === 'ArrowDown' ? 1 : -1) + count + 1) % (count + 1)) - 1
}

/** Names that were seen, where their field was not typed: each becomes a filter of its own. */
function valuesOf(typed: string, vocabulary: Vocabulary): Completion[] {
  if (typed.length < 2) return []
  return ['queue', 'exchange', 'routing_key', 'client.name', 'user', 'method'].flatMap((path) =>
    matching(vocabulary.values[path] ?? [], typed, (each) => each)
      .slice(0, 3)
      .map((each) => ({ insert: `${path} == ${JSON.stringify(each)}`, label: each, meaning: path })),
  )
}
