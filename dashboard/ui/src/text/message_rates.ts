import type { MessageRow } from '../api/types'

/** How many messages a second went to an exchange, and came from a queue, as the newest rows show it. */
export interface MessageRates {
  published: Map<string, number>
  delivered: Map<string, number>
  /** The seconds that the rows are of; 0 where there are too few to tell. */
  span: number
}

export function messageRates(rows: readonly MessageRow[]): MessageRates {
  const rates: MessageRates = { published: new Map(), delivered: new Map(), span: 0 }
  const times = rows.map((row) => row.ts_ns)
  const span = times.length > 1 ? (Math.max(...times) - Math.min(...times)) / 1e9 : 0
  if (span <= 0) return rates
  rates.span = span
  const add = (to: Map<string, number>, name: string) => to.set(name, (to.get(name) ?? 0) + 1 / span)
  for (const row of rows) {
    if (row.type === 'publish') add(rates.published, row.exchange || '(default)')
    else if ((row.type === 'deliver' || row.type === 'get') && row.queue) add(rates.delivered, row.queue)
  }
  return rates
}
