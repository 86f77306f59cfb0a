/** Numbers as they are shown: short, and as wide as each other. */

const PREFIXES = ['', 'k', 'M', 'G', 'T'] as const
const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

const GROUPED = new Intl.NumberFormat('en-US')

/** All digits: 12,345. */
export function count(number: number | null | undefined): string {
  return number === null || number === undefined ? '–' : GROUPED.format(number)
}

/** So many of what a noun names: 1 queue, 2 queues. */
export function counted(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`
}

/** At most four characters and a prefix: 12.3k. */
export function short(number: number | null | undefined): string {
  if (number === null || number === undefined || Number.isNaN(number)) return '–'
  let value = Math.abs(number)
  let prefix = 0
  while (value >= 999.5 && prefix < PREFIXES.length - 1) {
    value /= 1000
    prefix += 1
  }
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2
  const text = value.toFixed(digits)
  return `${number < 0 ? '−' : ''}${text}${PREFIXES[prefix]}`
}

export function bytes(number: number | null | undefined): string {
  if (number === null || number === undefined) return '–'
  let value = number
  let unit = 0
  while (value >= 1024 && unit < BINARY.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${BINARY[unit]}`
}

/** A duration that was measured, with three digits: 208 µs. */
export function seconds(number: number | null | undefined): string {
  if (number === null || number === undefined) return '–'
  if (number >= 120) return duration(number)
  const [value, unit] =
    number >= 1 ? [number, 's'] : number >= 1e-3 ? [number * 1e3, 'ms'] : number > 0 ? [number * 1e6, 'µs'] : [0, 's']
  return `${value >= 100 || value === 0 ? value.toFixed(0) : value.toPrecision(3)} ${unit}`
}

/** A long time in its two largest units: 3 h 12 min. */
export function duration(number: number): string {
  const whole = Math.max(0, Math.round(number))
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor((whole % 86_400) / 3600), 'h'],
    [Math.floor((whole % 3600) / 60), 'min'],
    [whole % 60, 's'],
  ]
  const first = parts.findIndex(([amount]) => amount > 0)
  if (first < 0) return '0 s'
  return parts
    .slice(first, first + 2)
    .filter(([amount], index) => index === 0 || amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(' ')
}
