import type { FrameRow, MessageRow, RuleView, Table, Value } from '../api/types'
import { both, connectionFilter, filterFor } from './filters'
import { inline } from './summaries'

/** What a rule that is made by a click applies to: commands like one that was seen. */
export interface Aim {
  /** The method, in the words of rules, which are those of 0-9-1. */
  method: string
  /** The filter for the names that the command has; empty where it has none. */
  names: string
  /** The names, for people. */
  namesText: string
  /** The connection's name, such as `10.0.0.7:4711-10.0.0.1:5673`; null where it is not known. */
  connection: string | null
}

export interface ClickAct {
  id: string
  /** What the button says, before the number and behind it. */
  before: string
  after?: string
  /** The number that it starts with, and its bounds; null where there is none. */
  amount: { start: number; min: number; max: number; step: number } | null
  /** Whether it can be done to a method. */
  fits: (method: string) => boolean
  rule: (amount: number, seconds: number) => Table
}

const CLOSING = /^(connection|channel)\./
const isOpen = (method: string) => !CLOSING.test(method)
const isPublish = (method: string) => method === 'basic.publish'
const fault = (keys: Table): Table => ({ action: 'fault', ...keys })

export const HOLD: ClickAct = {
  id: 'hold',
  before: 'Hold the next',
  amount: null,
  fits: isOpen,
  rule: (_amount, seconds) => ({ action: 'hold', count: 1, timeout: Math.min(3600, seconds) }),
}

export const ACTS: readonly ClickAct[] = [
  {
    id: 'nack every',
    before: 'Nack every',
    after: 'th',
    amount: { start: 10, min: 1, max: 1_000_000, step: 1 },
    fits: isPublish,
    rule: (every) => fault({ fault: { kind: 'nack' }, every }),
  },
  {
    id: 'nack',
    before: 'Nack',
    after: '%',
    amount: { start: 5, min: 0.1, max: 100, step: 0.1 },
    fits: isPublish,
    rule: (percent) => fault({ fault: { kind: 'nack' }, probability: percent / 100 }),
  },
  {
    id: 'delay',
    before: 'Delay by',
    after: 's',
    amount: { start: 1, min: 0.001, max: 3600, step: 0.001 },
    fits: isOpen,
    rule: (seconds) => fault({ fault: { kind: 'delay', seconds } }),
  },
  {
    id: 'hold all',
    before: 'Hold each',
    amount: null,
    fits: isOpen,
    rule: (_amount, seconds) => ({ action: 'hold', timeout: Math.min(3600, seconds) }),
  },
  { id: 'drop', before: 'Drop each', amount: null, fits: isOpen, rule: () => fault({ fault: { kind: 'drop' } }) },
]

/** Rules see a message of 0-10 as the publish or the delivery that it is. */
const OF_TYPE: Record<string, string> = {
  publish: 'basic.publish',
  deliver: 'basic.deliver',
  get: 'basic.get-ok',
  return: 'basic.return',
}

function aimed(method: string, table: Table, connection: string): Aim {
  let names = ''
  const texts: string[] = []
  for (const name of ['exchange', 'routing_key', 'queue']) {
    const value: Value | undefined = table[name]
    if (typeof value !== 'string') continue
    if (name === 'queue' && names) continue // the queue of a delivery is not in the command itself
    names = both(names, filterFor([name], value)!)
    texts.push(`${name === 'routing_key' ? 'key' : name} ${value === '' ? '""' : inline(value, 40)}`)
  }
  return { method, names, namesText: texts.join(', '), connection }
}

/** What a message, or a request, is like; `view` is it as rules see it, of 0-10. */
export function messageAim(row: MessageRow, view?: RuleView | null): Aim | null {
  const method = OF_TYPE[row.type] ?? (row.type === 'request' && row.from !== 'server' ? (view?.method ?? row.method) : undefined)
  if (!method) return null
  if (view) return aimed(method, view.arguments, row.connection)
  const { exchange, routing_key, queue } = row
  const own = Object.fromEntries(Object.entries({ exchange, routing_key, queue }).filter(([, value]) => value !== undefined))
  return aimed(method, { ...(row.arguments ?? {}), ...own } as Table, row.connection)
}

/** What the command that begins with this frame is like; null where none does, or rules see none. */
export function frameAim(row: FrameRow, view?: RuleView | null): Aim | null {
  if (!row.method || (row.protocol === '0-10' && !view)) return null
  return aimed(view?.method ?? row.method, view?.arguments ?? row.arguments ?? {}, row.connection)
}

/** The rule, as a config has it. */
export function clickRule(act: ClickAct, aim: Aim, amount: number, seconds: number, isNarrow: boolean, isOneConnection: boolean): Table {
  const ofConnection = isOneConnection && aim.connection ? (connectionFilter(aim.connection) ?? '') : ''
  const when = [isNarrow ? aim.names : '', ofConnection].filter(Boolean).join(' && ')
  const told = [act.before.toLowerCase(), act.amount ? `${amount}${act.after === 's' ? ' s' : act.after}` : ''].filter(Boolean).join(' ')
  const name = [told, aim.method, isNarrow ? aim.namesText : '', ofConnection ? `from ${aim.connection!.split('-')[0]}` : ''].filter(Boolean)
  return { name: name.join(', '), ...act.rule(amount, seconds), match: { method: aim.method }, ...(when ? { when } : {}) }
}
