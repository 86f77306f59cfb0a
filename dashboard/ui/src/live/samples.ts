/** What a source did in an interval, as rates a second; what a capture cannot show is absent. */
export interface Sample {
  /** When the interval began, in seconds since 1970, and how long it was. */
  ts: number
  seconds: number
  frames: number | null
  methods: { [method: string]: number }
  bytes: { client: number; server: number }
  messages: { [name: string]: number | null }
  opened?: number | null
  closed?: number | null
  errors?: number | null
  /** How many confirms, and acknowledgements, took so long: a count for each bucket. */
  confirm?: number[]
  ack?: number[]
  connections?: number | null
  channels?: number | null
  consumers?: number | null
  blocked?: number | null
  unacked?: number | null
  unconfirmed?: number | null
  /** How late the proxy's event loop is, in seconds. */
  lag?: { now: number; most: number } | null
  /** Records that its taps were too slow for. */
  dropped?: number | null
  temporary_rules?: number
}

/** The last hour of samples of one source, the oldest first. */
export class SampleSeries {
  samples: Sample[] = []

  constructor(readonly limit = 3600) {}

  push(sample: Sample): void {
    if (this.last && sample.ts <= this.last.ts) return
    this.samples.push(sample)
    if (this.samples.length > this.limit + 60) this.samples.splice(0, this.samples.length - this.limit)
  }

  /** Put what the server had before the first of ours in front. */
  before(samples: readonly Sample[]): void {
    const first = this.samples[0]?.ts ?? Infinity
    this.samples = [...samples.filter((each) => each.ts < first), ...this.samples].slice(-this.limit)
  }

  get last(): Sample | undefined {
    return this.samples[this.samples.length - 1]
  }
}

/** The names that have most, over all samples: the first `most` of them. */
export function topNames(samples: readonly Sample[], most: number): string[] {
  const totals = new Map<string, number>()
  for (const sample of samples) {
    for (const [name, rate] of Object.entries(sample.methods ?? {})) totals.set(name, (totals.get(name) ?? 0) + rate)
  }
  return [...totals.entries()]
    .filter(([, total]) => total > 0)
    .sort((one, other) => other[1] - one[1] || one[0].localeCompare(other[0]))
    .slice(0, most)
    .map(([name]) => name)
}

/** Samples in so few columns that they can be told apart: the counts of each column are added up. */
export function columnsOf(samples: readonly Sample[], of: 'confirm' | 'ack', most: number): { ts: number; counts: number[] }[] {
  const width = Math.max(1, Math.ceil(samples.length / most))
  const columns: { ts: number; counts: number[] }[] = []
  for (let at = 0; at < samples.length; at += width) {
    const counts: number[] = []
    for (const sample of samples.slice(at, at + width)) {
      sample[of]?.forEach((count, bucket) => (counts[bucket] = (counts[bucket] ?? 0) + count))
    }
    columns.push({ ts: samples[at]!.ts, counts })
  }
  return columns
}
