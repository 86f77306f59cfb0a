import type { Value } from '../api/types'
import { count, counted, duration } from './numbers'
import { inline } from './summaries'

export interface Difference {
  kind: 'missing' | 'extra' | 'changed' | 'moved'
  type: string
  what: string
  method?: string
  a?: { ts_ns: number; stream: number; connection: string; channel?: number }
  b?: { ts_ns: number; stream: number; connection: string; channel?: number }
  changes?: { field: string; before?: Value; after?: Value; at?: number }[]
}

/** A capture that is, or was, played to a broker. */
export interface Replay {
  id: number
  path: string
  name: string
  to: string
  speed: number | 'max'
  clients: number
  loop: number
  by: string
  state: 'running' | 'same' | 'different' | 'ended' | 'failed'
  text: string
  started_at: number
  ended_at: number | null
  difference_count: number
  differences: Difference[]
  /** Commands that were sent otherwise than recorded: under names of the live broker, or for another login. */
  sent?: Difference[]
  /** How far it has come; null before it has said so. */
  progress?: { connections: number; commands_sent: number; answers_compared: number; loop: number } | null
  summary: {
    connections: number
    commands_sent: number
    answers_compared: number
    not_played: { reason: string; count: number; method?: string }[]
    notes: string[]
    latencies?: { [kind: string]: { recorded: Latency | null; live: Latency | null } }
  } | null
}

/** Percentiles in seconds. */
interface Latency {
  count: number
  p50: number
  p99: number
}

/** The kinds of requests that both runs have, with the latencies of each run. */
export function replayLatencies(replay: Replay): { kind: string; recorded: Latency; live: Latency }[] {
  return Object.entries(replay.summary?.latencies ?? {}).flatMap(([kind, { recorded, live }]) => (recorded && live ? [{ kind, recorded, live }] : []))
}

const STATES = {
  running: '● running',
  same: '✓ the same',
  different: '✕ different',
  ended: '■ ended',
  failed: '✕ failed',
}

export function replayState(replay: Replay): string {
  return STATES[replay.state]
}

/** How far it is, or what came of it; `now` is in seconds since 1970. */
export function replayText(replay: Replay, now: number): string {
  const took = duration(Math.max(0, (replay.ended_at ?? now) - replay.started_at))
  const { summary } = replay
  const differences = counted(replay.difference_count, 'difference')
  if (!summary && replay.state !== 'running') return replay.text
  if (!summary) {
    const { progress } = replay
    const loop = progress && replay.loop !== 1 ? `time ${count(progress.loop)}${replay.loop ? ` of ${count(replay.loop)}` : ''}, ` : ''
    return `${loop}for ${took}, ${progress ? `${counted(progress.commands_sent, 'command')} sent, ` : ''}${differences} so far`
  }
  return [
    counted(summary.connections, 'connection'),
    `${counted(summary.commands_sent, 'command')} sent`,
    `${counted(summary.answers_compared, 'answer')} compared`,
    differences,
    `in ${took}`,
  ].join(', ')
}

/** At what speed, in how many copies, and how often. */
export function replayManner(replay: Pick<Replay, 'speed' | 'clients' | 'loop'>): string {
  return [
    replay.speed === 'max' ? 'as fast as it answers' : `${replay.speed}×`,
    replay.clients === 1 ? '' : `${count(replay.clients)} copies`,
    replay.loop === 1 ? '' : replay.loop === 0 ? 'again and again' : `${count(replay.loop)} times`,
  ]
    .filter(Boolean)
    .join(', ')
}

/** The fields that differ: what was recorded, and what came now. */
export function changesText(difference: Difference): string {
  return (difference.changes ?? [])
    .map(({ field, before, after }) => `${field}: ${before === undefined ? 'absent' : inline(before, 60) || '""'} → ${after === undefined ? 'absent' : inline(after, 60) || '""'}`)
    .join('; ')
}

function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`
}

/** The command that does the same. */
export function replayCommand(path: string, to: string, speed: number | 'max', clients: number, loop: number): string {
  const url = to.includes('://') ? to : `amqp://${to}`
  const parts = ['amqproxy replay', quoted(path), '--to', quoted(url)]
  if (speed !== 1) parts.push('--speed', String(speed))
  if (clients !== 1) parts.push('--clients', String(clients))
  if (loop !== 1) parts.push('--loop', String(loop))
  return parts.join(' ')
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/
const WILDCARD = /^(0\.0\.0\.0|::|)$/

/** Host and port of an AMQP URL or a listener's address; null where it is neither. */
function place(address: string): { host: string; port: string } | null {
  const [, scheme = '', rest = ''] = /^(?:(\w+):\/\/)?(.*)$/.exec(address.trim()) ?? []
  const found = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec((rest.split(/[/?]/)[0] ?? '').split('@').at(-1)!)
  return found && { host: (found[1] ?? found[2] ?? '').toLowerCase(), port: found[3] ?? (scheme === 'amqps' ? '5671' : '5672') }
}

/** Whether an AMQP URL leads to one of these listeners, as far as its text tells. */
export function isOneOf(url: string, listeners: readonly string[]): boolean {
  const target = place(url)
  if (!target) return false
  return listeners.map(place).some((each) => {
    if (!each || each.port !== target.port) return false
    return each.host === target.host || WILDCARD.test(each.host) || (LOOPBACK.test(each.host) && LOOPBACK.test(target.host))
  })
}
