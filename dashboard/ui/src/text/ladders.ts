import type { Table } from '../api/types'

/** A ladder, as the API has it: who sent what to whom. */
export interface LadderAnswer {
  lanes: string[]
  sections: LadderSection[]
  left_out?: number
  left_out_connections?: number
  /** Where it goes on, in nanoseconds since 1970, if not all was looked at. */
  next_start?: string | null
}

export interface LadderSection {
  stream: number
  connection: string
  name?: string
  end?: string
  has_proxy?: boolean
  items: (LadderRow | LadderGroup)[]
}

export interface LadderRow {
  number: number
  ts_ns: number
  last_ts_ns: number
  channel: number | null
  from: string
  to: string
  kind: string
  title: string
  arguments?: Table
  last?: Table
  note?: string
  text?: string
  size?: { least: number; most: number } | null
  count: number
  differing?: string[]
  is_error?: boolean
}

export interface LadderGroup {
  times: number
  rows: LadderRow[]
}

/** A row, with the group that it is repeated in, and what became of it on its way through the proxy. */
export interface Rung {
  row: LadderRow
  /** How often the group is repeated; 0 where the row is in none. */
  times: number
  isFirst: boolean
  changes: { name: string; before: string; after: string }[]
}

function show(value: unknown): string {
  return value === undefined ? '(absent)' : typeof value === 'string' ? value : JSON.stringify(value)
}

/** What differs between a command as it came to the proxy and as it went on. */
export function changesBetween(before: Table, after: Table): { name: string; before: string; after: string }[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names]
    .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((name) => ({ name, before: show(before[name]), after: show(after[name]) }))
}

/** All rows of a section, one after the other. */
export function rungsOf(section: LadderSection, lanes: readonly string[]): Rung[] {
  const rungs: Rung[] = []
  const proxy = lanes[1]
  for (const item of section.items) {
    const rows = 'rows' in item ? item.rows : [item]
    rows.forEach((row, index) => {
      const came = rungs.at(-1)?.row
      const isSame = came && came.title === row.title && came.channel === row.channel && came.to === proxy && row.from === proxy
      const changes = isSame ? changesBetween(came.arguments ?? {}, row.arguments ?? {}) : []
      rungs.push({ row, times: 'rows' in item ? item.times : 0, isFirst: index === 0, changes })
    })
  }
  return rungs
}
