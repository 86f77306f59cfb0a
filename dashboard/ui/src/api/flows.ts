/** Messages between a client and an exchange or a queue, as the server has counted them. */
export interface Flow {
  client: string
  user: string
  vhost: string
  exchange: string
  /** Of what is delivered alone. */
  queue: string | null
  /** Null for the keys beyond the first ones of a client there. */
  routing_key: string | null
  messages: number
  bytes: number
  errors: number
  /** A second. */
  rate: number
  outcomes: Record<string, number>
  /** Of confirms, or of acknowledgements, in seconds. */
  p50: number | null
  p99: number | null
  /** From the publish to the first delivery, where both were seen. */
  transit_p50: number | null
  transit_p99: number | null
  last_ns: number
}

export interface FlowLists {
  /** What the rates are of; 0 where nothing can be said. */
  seconds: number
  /** False where some traffic was lost in each of these seconds. */
  is_complete: boolean
  forgotten?: number
  published: Flow[]
  delivered: Flow[]
}

export interface FlowTotals extends Pick<Flow, 'messages' | 'bytes' | 'errors' | 'rate' | 'outcomes' | 'p50' | 'p99' | 'transit_p50' | 'transit_p99'> {
  /** Of each second. */
  counts: number[]
}

export interface SeenError {
  ts_ns: number
  stream: number
  channel?: number | null
  client: string
  user: string
  vhost: string
  what: string
  by?: string | null
  code?: number
  text?: string
  method?: string | null
  exchange?: string | null
  queue?: string | null
  routing_key?: string | null
  count?: number
  frame?: number
}

/** The rate of all flows that hold; nothing where there are none. */
export function rateOf(flows: readonly Flow[], holds: (flow: Flow) => boolean): number | undefined {
  const found = flows.filter(holds)
  return found.length ? found.reduce((sum, each) => sum + each.rate, 0) : undefined
}

/** What rates are of, in words. */
export function rateSpan(lists: Pick<FlowLists, 'seconds' | 'is_complete'> | null): string {
  if (!lists?.seconds) return ''
  return lists.is_complete ? `rates of ${Math.round(lists.seconds)} s` : 'rates are too low: some traffic was not seen'
}
