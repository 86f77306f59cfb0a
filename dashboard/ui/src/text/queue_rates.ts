/** Rates of queues: the differences of what two looks have counted. */
import type { BrokerQueue } from '../api/broker'

export interface QueueRate {
  in: number
  out: number
  ack: number
}

/** Places in a queue's counts: published, and delivered or got in each way. */
const PUBLISH = 0
const DELIVERIES = [5, 6, 7, 8]
const ACK = 11

interface Look extends QueueRate {
  at: number
}

export class QueueRates {
  #before = new Map<string, Look>()

  /** The rates since the look before, in messages a second, by `keyOf`; `at` is in seconds. */
  look(queues: readonly BrokerQueue[], at: number): Map<string, QueueRate> {
    const next = new Map<string, Look>()
    const found = new Map<string, QueueRate>()
    for (const each of queues) {
      const key = keyOf(each)
      const now = { ...countsOf(each), at }
      const then = this.#before.get(key)
      next.set(key, now)
      if (!then || at <= then.at) continue
      const rate = (name: keyof QueueRate): number => Math.max(0, (now[name] - then[name]) / (at - then.at))
      found.set(key, { in: rate('in'), out: rate('out'), ack: rate('ack') })
    }
    this.#before = next
    return found
  }
}

export function keyOf(queue: { vhost: string; name: string }): string {
  return `${queue.vhost}\0${queue.name}`
}

function countsOf({ counts }: BrokerQueue): QueueRate {
  const at = (place: number): number => counts?.[place] ?? 0
  return { in: at(PUBLISH), out: DELIVERIES.reduce((sum, place) => sum + at(place), 0), ack: at(ACK) }
}
