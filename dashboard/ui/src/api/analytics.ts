/** What the server answers about the pipeline's tables. Times are in nanoseconds since 1970. */

export interface TablesInfo {
  path: string | null
  tables: string[]
  start_ns: number | null
  end_ns: number | null
}

export type Step = 'minute' | 'hour' | 'day'
export type Subject = 'all' | 'exchange' | 'queue' | 'user' | 'connection'

export interface Asked {
  start_ns: number
  end_ns: number
  step: Step
  by: Subject
  name: string | null
  virtual_host: string | null
}

export interface Usage {
  virtual_host: string | null
  published: number
  published_bytes: number
  delivered: number
  delivered_bytes: number
}

export interface Counts extends Usage {
  confirmed: number
  nacked_publishes: number
  returned: number
  acked: number
  nacked: number
  rejected: number
  redelivered: number
  errors: number
}

export type TrafficPoint = Counts & { ts_ns: number }
export type LatencyPoint = { ts_ns: number } & { [figure: string]: number | null }
export type TopRow = Counts & { name: string | null }
export type UserRow = Usage & { user: string | null }
export type ClientRow = UserRow & { name: string | null }

export interface ErrorRow {
  kind: string | null
  code: number | null
  method: string | null
  count: number
  connections: number
  last_ns: number
  text: string | null
  connection: string | null
}

export interface KindRow {
  kind: string | null
  severity: string | null
  count: number
  connections: number
  last_ns: number
  connection: string | null
  channel: number | null
  text: string | null
  why: string | null
  remedy: string | null
}

export interface AnomalyRow {
  ts_ns: number
  subject: string | null
  name: string | null
  virtual_host: string | null
  measure: string | null
  value: number | null
  expected: number | null
  deviation: number | null
  score: number | null
  text: string | null
  evidence: string | null
}

export type ColumnKind = 'text' | 'number' | 'time' | 'duration' | 'bytes' | 'share' | 'flag'

export interface PanelInfo {
  name: string
  title: string
  about: string
}

export interface AnswerColumn {
  name: string
  title: string
  kind: ColumnKind
}

export type AnswerValue = string | number | boolean | null

/** The answer to a question of `amqproxy pipeline ask`: a value a column in each row. */
export interface AnswerTable {
  asked: Asked
  question: string
  columns: AnswerColumn[]
  rows: AnswerValue[][]
}

export interface Series<Point> {
  asked: Asked
  points: Point[]
}

export interface Rows<Row> {
  asked: Asked
  rows: Row[]
}
