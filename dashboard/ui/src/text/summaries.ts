import type { FrameRow, MessageRow, Table, Value } from '../api/types'

/** A value in a line of text. */
export function inline(value: Value | undefined, limit = 120): string {
  if (value === undefined || value === null) return ''
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > limit ? `${text.slice(0, limit)}…` : text
}

function isEmpty(value: Value): boolean {
  if (value === null || value === false || value === '' || value === 0) return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

/** What a table has, without what is empty or has its usual value. */
export function entries(table: Table | undefined, limit = 120): string {
  if (!table) return ''
  const parts: string[] = []
  let length = 0
  for (const [name, value] of Object.entries(table)) {
    if (isEmpty(value)) continue
    const part = value === true ? name : `${name}=${inline(value, 60)}`
    parts.push(part)
    length += part.length
    if (length > limit * 2) break
  }
  return parts.join(' ')
}

/** What the decoder says where a feed skipped something, or a capture lacks it: nothing that a peer did wrong. */
const MISSING = 'bytes are missing from the capture'

/** Does a row stand for what was not seen? */
export function isGap(row: { type: string; reason?: string }): boolean {
  return row.type === 'gap' || (row.type === 'error' && row.reason === MISSING)
}

/** A connection's number; nothing where a row is not of one connection, such as a gap. */
export function connectionNumber(number: number | null | undefined): string {
  return number === null || number === undefined || number < 0 ? '' : `#${number}`
}

/** When it was known what became of a message: the order of the rows; `ts_ns` is when it began. */
export function knownAt(row: { ts_ns: number; seconds?: number | null }): number {
  return row.ts_ns + (row.seconds ?? 0) * 1e9
}

/** What a frame is: the method, or the kind of frame. */
export function frameTitle(row: FrameRow): string {
  if (isGap(row)) return '···'
  return row.method ?? (row.type === 'header' ? 'content header' : row.type === 'body' ? 'content body' : row.type)
}

/** What was not seen between two rows. */
export function gapText(row: { type: string; count?: number; lost?: number; reason?: string; text?: string }): string {
  if (row.type === 'error') return row.lost ? `${row.lost.toLocaleString('en-US')} bytes were not seen` : 'Some bytes were not seen'
  const count = row.count ?? row.lost
  const skipped = count === undefined ? 'Some frames were skipped' : `${count.toLocaleString('en-US')} frames were skipped`
  return row.text ?? (row.reason ? `${skipped}: ${row.reason}` : skipped)
}

export function frameSummary(row: FrameRow): string {
  if (isGap(row)) return gapText(row)
  const id = row.command_id === undefined ? '' : `#${row.command_id}`
  return [id, partOf(row), contents(row)].filter(Boolean).join(' ')
}

/** Of a command, a header or a control of 0-10 in several frames: which of them this is. */
function partOf(row: FrameRow): string {
  if (row.flags === undefined || row.type === 'body' || row.type === 'error') return ''
  const [isFirst, isLast] = [row.flags.includes('b'), row.flags.includes('e')]
  if (isFirst && isLast) return ''
  return isFirst ? '(its first frame)' : isLast ? '(its last frame)' : '(more of it)'
}

function contents(row: FrameRow): string {
  if (row.type === 'error' || row.reason !== undefined) {
    return [row.code, row.reason, row.lost ? `${row.lost} bytes lost` : ''].filter(Boolean).join(' ')
  }
  if (row.type === 'header') return [entries(row.arguments), entries(row.properties)].filter(Boolean).join('  ')
  if (row.type === 'body') return row.body === undefined ? '' : inline(row.body)
  if (row.method === 'message.transfer') {
    const { destination, accept_mode, acquire_mode, ...rest } = row.arguments ?? {}
    const modes = [accept_mode === 1 ? 'accept_mode=none' : '', acquire_mode === 1 ? 'acquire_mode=not-acquired' : '']
    return [`→ ${inline(destination) || '(default)'}`, ...modes, entries(rest as Table)].filter(Boolean).join(' ')
  }
  if (row.method === 'basic.publish') {
    const { exchange, routing_key, ...rest } = row.arguments ?? {}
    return `${inline(exchange) || '(default)'} → ${inline(routing_key)} ${entries(rest as Table)}`.trimEnd()
  }
  return entries(withSets(row.arguments))
}

/** The arguments of 0-10 with sets of command ids as a person writes them: `0-3, 7`. */
function withSets(table: Table | undefined): Table | undefined {
  const text = (ranges: Value[]): string =>
    (ranges as [number, number][]).map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(', ')
  const sets = Object.entries(table ?? {}).filter(([name, value]) => SETS.has(name) && Array.isArray(value))
  return sets.length ? { ...table, ...Object.fromEntries(sets.map(([name, value]) => [name, text(value as Value[])])) } : table
}

const SETS = new Set(['commands', 'transfers'])

export function ruleSummary(row: FrameRow | MessageRow): string {
  return [row.verdict, row.rules?.length ? `by ${row.rules.join(', ')}` : '', row.tags?.map((tag) => `#${tag}`).join(' ')]
    .filter(Boolean)
    .join(' ')
}

/** Where a message went, or what was asked for. */
export function messageSummary(row: MessageRow): string {
  const exchange = row.exchange === undefined ? '' : row.exchange || '(default)'
  if (isGap(row)) return gapText(row)
  switch (row.type) {
    case 'publish':
    case 'return':
      return `${exchange} → ${inline(row.routing_key)}`
    case 'deliver':
    case 'get':
      return `${exchange} → ${inline(row.routing_key)}${row.queue ? ` → ${inline(row.queue)}` : ''}`
    case 'request':
      return entries(withSets(row.arguments))
    default:
      return [row.method, entries(withSets(row.arguments))].filter(Boolean).join(' ')
  }
}

/** What became of a message, and why. */
export function outcomeText(row: MessageRow): string {
  if (isGap(row)) return ''
  const parts = [row.outcome]
  if (row.redelivered) parts.push('(redelivered)')
  if (row.requeue) parts.push('(requeued)')
  if (row.code && row.code !== 200) parts.push(String(row.code))
  if (row.reason && row.code !== 200) parts.push(row.reason)
  if (row.reply) parts.push(`${row.reply} ${entries(withSets(row.reply_arguments))}`.trimEnd())
  return parts.join(' ')
}

const GOOD = new Set(['confirmed', 'acked', 'committed', 'answered', 'opened', 'auto-acked', 'browsed', 'unblocked', 'resumed'])
const BAD = new Set(['nacked', 'rejected', 'returned', 'unknown tag', 'rolled back', 'unanswered'])

/** How well it went: shown as a sign before the outcome, and by its colour. */
export function outcomeMood(row: MessageRow): 'good' | 'bad' | 'open' {
  if (isGap(row) || row.outcome === 'unknown') return 'open'
  if (row.type === 'error' || BAD.has(row.outcome) || (row.code !== undefined && row.code >= 300)) return 'bad'
  return GOOD.has(row.outcome) || (row.outcome === 'closed' && row.code === 200) ? 'good' : 'open'
}
