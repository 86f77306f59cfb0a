import { completionsAt, matching, NOTHING, type Completion, type Completions, type Vocabulary } from './completion'

interface Key {
  kind: string
  /** Values that can be listed. */
  values: string[]
  /** Tables that it may have, by name. */
  tables: string[]
}

interface Words {
  /** The key and the value that choose this table among others. */
  tag: [string, string] | null
  meaning: string
  keys: { [key: string]: Key }
}

/** The words of rules, as the server has them. */
export interface RuleVocabulary {
  rules: string[]
  tables: { [name: string]: Words }
}

/** A line of YAML: the column of its key, that of its dash, or -1, its key, and its value. */
interface Line {
  column: number
  dash: number
  key: string
  value: string
}

const LINE = /^( *)((?:- +)*)(-?[\w.-]*)(?:\s*:(?:\s+(.*))?)?$/

/** Parse a line of block style; null for an empty line, a comment, and the rest of a text. */
function parsed(text: string): Line | null {
  const found = LINE.exec(text)
  if (!found || !text.trim()) return null
  const [, spaces = '', dashes = '', key = '', value = ''] = found
  return { column: spaces.length + dashes.length, dash: dashes ? spaces.length : -1, key, value }
}

interface Place {
  /** The keys above, from the outermost. */
  path: string[]
  /** The values of the keys in the table of each key of the path, and last in the caret's own. */
  tables: Map<string, string>[]
}

/** Where a line of YAML is. */
function placeOf(lines: readonly string[], at: number, column: number): Place {
  const own = new Map<string, string>()
  /** The column of the dash before the table's first key; -1 until that line is found, and without one. */
  let dash = parsed(lines[at]!)?.dash ?? -1
  for (let below = at + 1; below < lines.length; below++) {
    const line = parsed(lines[below]!)
    if (!line || line.column > column) continue
    if (line.column < column || line.dash >= 0) break
    own.set(line.key, line.value)
  }
  for (let above = at - 1; above >= 0; above--) {
    const line = parsed(lines[above]!)
    if (!line) continue
    if (line.column === column && dash < 0) {
      own.set(line.key, line.value)
      dash = line.dash
    } else if (line.column <= (dash < 0 ? column - 1 : dash)) {
      const outer = placeOf(lines, above, line.column)
      return { path: [...outer.path, line.key], tables: [...outer.tables, own] }
    }
  }
  return { path: [], tables: [own] }
}

/** The kinds of tables that the one at a place may be. */
function kindsAt(place: Place, words: RuleVocabulary): Words[] {
  const [root, ...path] = place.path
  if (root !== 'rules') return []
  let names = words.rules
  for (const [depth, table] of place.tables.slice(1).entries()) {
    const kinds = names.map((name) => words.tables[name]!)
    const chosen = kinds.filter(({ tag }) => tag && table.get(tag[0]) === tag[1])
    const possible = chosen.length ? chosen : kinds
    const key = path[depth]
    if (key === undefined) return possible
    names = [...new Set(possible.flatMap((each) => each.keys[key]?.tables ?? []))]
  }
  return []
}

function quoted(value: string): string {
  return /^[A-Za-z_][\w.-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value) ? value : JSON.stringify(value)
}

/** What may stand where the caret is in rules, which are YAML in block style. */
export function ruleCompletionsAt(text: string, caret: number, words: RuleVocabulary, vocabulary: Vocabulary): Completions {
  const lines = text.split('\n')
  const at = text.slice(0, caret).split('\n').length - 1
  const before = lines[at]!.slice(0, caret - text.lastIndexOf('\n', caret - 1) - 1)
  const line = parsed(before)
  if (!line || text.slice(caret).match(/^[^\s]/)) return NOTHING
  const place = placeOf(lines, at, line.column)
  const kinds = kindsAt(place, words)
  const value = /^[ -]*[\w.-]+\s*:\s+(.*)$/.exec(before)
  if (!value) {
    if (/:\s*$/.test(before)) return NOTHING
    return { from: caret - line.key.length, items: keysOf(kinds, line.key, place.tables.at(-1)!) }
  }
  const typed = value[1]!
  if (line.key === 'when') return completionsAt(typed, typed.length, vocabulary, caret - typed.length)
  const tags = kinds.filter(({ tag }) => tag?.[0] === line.key)
  const bare = typed.replace(/^["']/, '')
  const all = tags.length ? allTagged(place, words, line.key) : valuesOf(kinds, line.key, place, vocabulary)
  const items = matching(all, bare, (each) => each.label).filter((each) => each.insert !== typed)
  return { from: caret - typed.length, items }
}

function keysOf(kinds: readonly Words[], typed: string, table: Map<string, string>): Completion[] {
  const found = new Map<string, Completion>()
  const tag = kinds[0]?.tag
  // Until one is chosen, only keys of all kinds are sure; the one that chooses comes first.
  if (tag) found.set(tag[0], { insert: `${tag[0]}: `, label: tag[0], meaning: kinds.length > 1 ? 'which one it is' : tag[1] })
  for (const [key, { kind, values, tables }] of Object.entries(kinds[0]?.keys ?? {})) {
    if (!kinds.every((each) => key in each.keys)) continue
    const meaning = values.length && values.length < 5 ? values.join(', ') : kind
    found.set(key, { insert: tables.length ? `${key}:` : `${key}: `, label: key, meaning })
  }
  const left = [...found.values()].filter(({ label }) => label === typed || !table.has(label))
  return matching(left, typed, (each) => each.label).filter((each) => each.label !== typed)
}

/** Every value of the key that chooses the kind of a table, though one has been chosen. */
function allTagged(place: Place, words: RuleVocabulary, key: string): Completion[] {
  const tables = [...place.tables.slice(0, -1), new Map<string, string>()]
  return kindsAt({ path: place.path, tables }, words)
    .filter(({ tag }) => tag?.[0] === key)
    .map(({ tag, meaning }) => ({ insert: tag![1], label: tag![1], meaning }))
}

function valuesOf(kinds: readonly Words[], key: string, place: Place, vocabulary: Vocabulary): Completion[] {
  const known = kinds.flatMap((each) => each.keys[key]?.values ?? [])
  const seen = place.path.at(-1) === 'match' ? (vocabulary.values[key === 'connection_name' ? 'client.name' : key] ?? []) : []
  const both = [...seen.map((label) => ({ label, meaning: 'seen' })), ...known.map((label) => ({ label, meaning: key }))]
  const unique = new Map([...both].reverse().map((each) => [each.label, each]))
  return both.filter((each) => unique.get(each.label) === each).map(({ label, meaning }) => ({ insert: quoted(label), label: label || '""', meaning }))
}
