/** Series of the tables: which steps they have, and what is in those that the server leaves out. */
import type { Asked, Step } from '../api/analytics'

const NS: Record<Step, number> = { minute: 60e9, hour: 3600e9, day: 86_400e9 }

const HOUR = NS.hour

/** How far back a reader looks, in hours. */
export const SPANS: readonly { name: string; hours: number }[] = [
  { name: 'Hour', hours: 1 },
  { name: 'Day', hours: 24 },
  { name: 'Week', hours: 7 * 24 },
  { name: 'Month', hours: 30 * 24 },
]

/** A span of so many hours up to the newest row; null is from the oldest. */
export function lastHours(hours: number | null, start: number, end: number): { start: number; end: number } {
  return { start: hours === null ? start : Math.max(start, end - hours * HOUR), end }
}

/** All steps that were asked for, in seconds since 1970, and the point of each, if it has one. */
export function everyStep<Point extends { ts_ns: number }>(asked: Asked, points: readonly Point[]): { times: number[]; points: (Point | null)[] } {
  // Whole seconds: nanoseconds since 1970 are no exact numbers in JavaScript.
  const length = NS[asked.step] / 1e9
  const known = new Map(points.map((each) => [Math.round(each.ts_ns / 1e9), each]))
  const times: number[] = []
  for (let time = Math.floor(asked.start_ns / 1e9 / length) * length; time < asked.end_ns / 1e9; time += length) times.push(time)
  return { times, points: times.map((time) => known.get(time) ?? null) }
}

export function total(values: readonly (number | null)[]): number {
  return values.reduce<number>((sum, each) => sum + (each ?? 0), 0)
}

export function highest(values: readonly (number | null)[]): number | null {
  return values.reduce((most, each) => (each !== null && (most === null || each > most) ? each : most), null)
}

/** What a place in the page leads to from an anomaly: its hour and those around it, of whatever it is about. */
export function around(ts_ns: number): { start: number; end: number } {
  return { start: ts_ns - 3 * HOUR, end: ts_ns + 2 * HOUR }
}
