/** Times as they are shown: in UTC, as in the terminal, in captures and in logs. */

function two(number: number): string {
  return number < 10 ? `0${number}` : String(number)
}

/** 12:34:56.789012, of nanoseconds since 1970. JSON's numbers are exact to a quarter of a microsecond here. */
export function clock(ts_ns: number): string {
  const micros = Math.floor(ts_ns / 1000)
  const date = new Date(Math.floor(micros / 1000))
  const rest = String(micros % 1_000_000).padStart(6, '0')
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}.${rest}`
}

/** 12:34:56, of seconds since 1970. */
export function clockOfSeconds(seconds: number): string {
  const date = new Date(seconds * 1000)
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`
}

/** 2026-11-22 12:34:56, of seconds since 1970. */
export function dateTime(seconds: number): string {
  const date = new Date(seconds * 1000)
  return `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())} ${clockOfSeconds(seconds)}`
}

/**
 * What a reader typed as a time, in UTC: `12:34:56.5`, of today or of the day of `near`, or an ISO date, with an offset
 * if it has one; in nanoseconds.
 */
export function parseTime(text: string, near: number): number | null {
  const trimmed = text.trim()
  const day = /^(\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?$/.exec(trimmed)
  if (day) {
    const date = new Date(near / 1e6)
    date.setUTCHours(Number(day[1]), Number(day[2]), Number(day[3] ?? 0), 0)
    return date.getTime() * 1e6 + Math.round(Number(day[4] ?? 0) * 1e9)
  }
  const iso = trimmed.replace(' ', 'T')
  const parsed = Date.parse(/T.*(Z|[+-]\d{2}:?\d{2})$/.test(iso) || !iso.includes('T') ? iso : `${iso}Z`)
  return Number.isNaN(parsed) ? null : parsed * 1e6
}

/**
 * A range that holds the rows of both its ends, in nanoseconds since 1970: a number holds a time of today only to a
 * quarter of a microsecond, and the server leaves out what is at the end.
 */
export function rangeAround(first: number, last: number): [number, number] {
  return [(Math.floor(first / 1000) - 1) * 1000, (Math.ceil(last / 1000) + 1) * 1000]
}
