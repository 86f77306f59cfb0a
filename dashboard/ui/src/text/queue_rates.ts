/** Rates of queues: the differences of what two looks have counted. */
import type { BrokerQueue } from '../api/broker'

export interface QueueRate {
  in: number
  out: number
  ack: number
}

/** Place of acknowledgements in a queue's counts. */
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

/** In and out are all messages: counts lack dead letters, and those that expire, are dropped or purged. */
function countsOf({ counts, entered, left }: BrokerQueue): QueueRate {
  return { in: entered, out: left, ack: counts?.[ACK] ?? 0 }
}
