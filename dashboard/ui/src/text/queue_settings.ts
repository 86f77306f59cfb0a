/** What the settings of a queue do, and from where each comes: an argument, a policy, or an operator's policy. */
import type { QueueDetail } from '../api/broker'
import type { Table, Value } from '../api/types'

/** What each key of a policy does. */
export const KEYS: Record<string, string> = {
  'alternate-exchange': 'where an exchange sends what it cannot route',
  'dead-letter-exchange': 'where rejected, expired and dropped messages go',
  'dead-letter-routing-key': 'the routing key that dead letters get, in place of their own',
  'dead-letter-strategy': 'whether a dead letter may be lost on its way',
  'delivery-limit': 'returns after which a quorum queue drops or dead-letters a message',
  expires: 'milliseconds without use after which the queue is deleted',
  'max-age': 'age at which a stream drops whole segments',
  'max-in-memory-bytes': 'bytes of messages that are kept in memory',
  'max-in-memory-length': 'messages that are kept in memory',
  'max-length': 'messages that wait at most; overflow says what happens to more',
  'max-length-bytes': 'bytes of bodies that wait at most; overflow says what happens to more',
  'message-ttl': 'milliseconds after which a waiting message expires',
  overflow: 'what happens to more than the maximum: drop the oldest, or refuse the new one',
  'queue-mode': 'no effect: messages always go to the disk when memory is short',
  'queue-version': 'no effect on the integrated broker',
  'stream-max-segment-size-bytes': 'size of the segments that a stream drops at a time',
  'single-active-consumer': 'only one consumer gets messages at a time',
  'max-priority': 'number of priorities',
  'queue-type': 'classic, quorum or stream',
}

/** Numbers of which the lowest counts, whoever gives them; of all others an argument beats policies. */
const LOWEST = new Set(['delivery-limit', 'expires', 'max-in-memory-bytes', 'max-in-memory-length', 'max-length', 'max-length-bytes', 'message-ttl'])

export interface Setting {
  key: string
  value: Value
  from: string
  does: string
  /** Other values of the key, which do not count. */
  others: string[]
}

/** The settings that are in force on a queue. */
export function settingsOf({ queue, policies }: QueueDetail): Setting[] {
  const given: { from: string; values: Table }[] = [
    { from: 'argument', values: Object.fromEntries(Object.entries(queue.arguments).map(([name, value]) => [name.replace(/^x-/, ''), value])) },
    { from: `operator policy ${queue.operator_policy}`, values: policies.operator_policy?.definition ?? {} },
    { from: `policy ${queue.policy}`, values: policies.policy?.definition ?? {} },
  ]
  const keys = [...new Set(given.flatMap(({ values }) => Object.keys(values)))].sort()
  return keys.map((key) => {
    const found = given.filter(({ values }) => key in values).map(({ from, values }) => ({ from, value: values[key]! }))
    if (LOWEST.has(key)) found.sort((one, other) => Number(one.value) - Number(other.value))
    const [first, ...rest] = found
    return {
      key,
      value: first!.value,
      from: first!.from,
      does: KEYS[key] ?? '',
      others: rest.map(({ from, value }) => `${valueText(value)} of ${from}`),
    }
  })
}

export function valueText(value: Value): string {
  return typeof value === 'string' && value !== '' ? value : JSON.stringify(value)
}

/** What a queue is, in a few words. */
export function queueWords(queue: { durable: boolean; exclusive: boolean; auto_delete: boolean }): string {
  return [queue.durable ? 'durable' : 'transient', queue.exclusive ? 'exclusive' : '', queue.auto_delete ? 'auto-delete' : ''].filter(Boolean).join(', ')
}
