/** How many messages a second went to an exchange, and came from a queue, as the server has counted them. */
export interface MessageRates {
  published: Record<string, number>
  delivered: Record<string, number>
  /** The seconds that the rates are of; 0 where there are too few messages to tell. */
  seconds: number
}

/** The rate of an exchange or a queue; nothing for what had none. */
export function rateOf(rates: MessageRates | null, kind: string, name: string): number | undefined {
  const named = kind === 'exchange' ? rates?.published : kind === 'queue' ? rates?.delivered : undefined
  return named && Object.hasOwn(named, name) ? named[name] : undefined
}
