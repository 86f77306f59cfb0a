/** Runs of the workbench: what is asked, how they stand, and what came of them. */
import type { Table, Value } from '../api/types'
import { count, counted } from './numbers'

export type Command = 'peek' | 'requeue' | 'move' | 'edit' | 'drain'

export interface RunResult {
  to?: string
  depth?: number
  looked_at?: number
  chosen?: number
  done?: number
  left_count?: number
  left?: { position: number; reason: string; message_id?: string | null }[]
  places?: Record<string, number>
  not_looked_at?: number
  is_window_full?: boolean
  rescued?: number
  possible_repeats?: number
  uncertain?: number
  unreadable?: number
}

export interface Before {
  facts: { type: string; messages: number; consumers: number; delivery_limit?: number | null }
  lines: string[]
}

export interface PeekedMessage {
  position: number
  exchange: Value
  routing_key: Value
  redelivered: boolean
  delivery_count: number
  properties: Table
  size: number
  form: string
  shown: string
  is_cut: boolean
  body: string | null
  digest: string
}

export interface MessageEdit {
  position: number
  changes: Record<string, Table>
}

export interface Run {
  id: number
  command: Command
  vhost: string
  queue: string
  where: string | null
  dry_run: boolean
  by: string
  user: string
  state: 'running' | 'done' | 'left' | 'stopped' | 'refused' | 'failed'
  stopping: boolean
  text: string
  before: Before | null
  result: RunResult
  warnings: string[]
  file: string | null
  started_at: number
  ended_at: number | null
  messages?: PeekedMessage[]
  edits?: MessageEdit[]
}

export const TITLES: Record<Command, string> = {
  peek: 'Look',
  requeue: 'Bring dead letters back',
  move: 'Move to a queue or an exchange',
  edit: 'Edit, and send again',
  drain: 'Take out into a file',
}

const DONE: Record<Command, string> = { peek: 'shown', requeue: 'brought back', move: 'moved', edit: 'edited', drain: 'written and removed' }

export const SIGNS: Record<Run['state'], string> = { running: '◐', done: '✓', left: '▲', stopped: '■', refused: '✕', failed: '✕' }

/** How a run stands, or what came of it, in one line. */
export function runText({ command, state, dry_run: isDry, result }: Run): string {
  const { looked_at: looked = 0, depth = 0, done = 0, left_count: left = 0, to } = result
  if (state === 'refused') return 'refused: nothing was done'
  const would = isDry ? 'would be ' : ''
  const parts = [`${count(done)} ${would}${DONE[command]}${to && state !== 'running' ? `${command === 'edit' ? ', and sent' : ''} to ${to}` : ''}`, `${count(looked)} of ${count(depth)} looked at`]
  if (left) parts.push(`${count(left)} left`)
  return parts.join(', ')
}

/** What else the user should know of a run that has ended. */
export function runNotes({ result }: Run): string[] {
  const notes: string[] = []
  if (result.unreadable) notes.push(`${count(result.unreadable)} left in the queue, since the filter fails on them`)
  if (result.rescued) notes.push(`${count(result.rescued)} at the delivery limit, now at the end of the queue with a new count`)
  if (result.is_window_full) notes.push(`the window is full: ${count(result.not_looked_at)} messages behind were not looked at`)
  else if (result.not_looked_at) notes.push(`${counted(result.not_looked_at, 'message')} behind not looked at`)
  if (result.possible_repeats) notes.push(`${counted(result.possible_repeats, 'possible duplicate')}`)
  if (result.uncertain) notes.push(`${count(result.uncertain)} were sent, and their outcome is not known: they are in the queue, and perhaps there`)
  return notes
}

/** The queue, in a few words. */
export function factsText({ facts }: Before): string {
  const kind = facts.type === 'stream' ? 'stream' : `${facts.type} queue`.trim()
  return `${kind}, ${counted(facts.messages, 'message')}, ${counted(facts.consumers, 'consumer')}`
}

/** The body of the request for an edit of one message; raises an error where the properties are not JSON. */
export function oneOf(message: PeekedMessage, properties: string, body: string): Table {
  const given = JSON.parse(properties) as Table
  if (given === null || typeof given !== 'object' || Array.isArray(given)) throw new Error('not an object')
  const changed: Table = message.body !== null && body !== message.body ? { body } : {}
  return { position: message.position, digest: message.digest, properties: given, ...changed }
}

export function valueOf(value: Value | undefined): string {
  return value === null || value === undefined ? 'none' : typeof value === 'string' ? value : JSON.stringify(value)
}
