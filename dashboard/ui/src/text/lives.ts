import type { Life, LifeDelivery, LifePublish } from '../api/types'
import { count, seconds } from './numbers'

/** One step of a message's life, as it is shown. */
export interface LifeStep {
  ts_ns: number
  /** The connection that it was on, and the client's name for it. */
  stream: number
  name: string
  text: string
  detail: string
  outcome: string
  mood: 'good' | 'bad' | 'open'
  /** Why it may be of another message; empty if it is sure. */
  doubt: string
}

const BAD = new Set(['nacked', 'rejected', 'rolled back', 'recovered', 'refused', 'dropped', 'open'])
const GOOD = new Set(['confirmed', 'committed', 'sent', 'acked', 'auto-acked', 'browsed'])

function moodOf(outcome: string | undefined): LifeStep['mood'] {
  if (outcome === undefined) return 'open'
  return BAD.has(outcome) ? 'bad' : GOOD.has(outcome) ? 'good' : 'open'
}

function took(outcome: string, time: number | undefined): string {
  return time === undefined ? outcome : `${outcome} after ${seconds(time)}`
}

function publishStep(step: LifePublish): LifeStep {
  const exchange = step.exchange === '' ? 'the default exchange' : String(step.exchange)
  return {
    ts_ns: step.ts_ns,
    stream: step.stream,
    name: String(step.connection ?? ''),
    text: '→ published',
    detail: `to ${exchange}, routing key ${String(step.routing_key)}`,
    outcome: step.returned ? 'returned: no queue took it' : took(step.outcome ?? 'pending', step.seconds),
    mood: step.returned ? 'bad' : moodOf(step.outcome),
    doubt: '',
  }
}

function deliveryStep(step: LifeDelivery, isPublished: boolean): LifeStep {
  const what = step.died_in !== undefined ? '← dead letter' : step.redelivered ? '← delivered again' : '← delivered'
  const parts = [step.queue === undefined ? 'from a queue that is not known' : `from ${String(step.queue)}`]
  if (step.died_in !== undefined) parts.push(`was ${step.died_of} in ${String(step.died_in)}`)
  if (step.transit_seconds !== undefined) parts.push(`${seconds(step.transit_seconds)} after the publish`)
  const requeued = step.requeue === undefined ? '' : step.requeue ? ', requeued' : ', not requeued'
  const doubt = (step.among ?? 0) > 1 ? `may be another of ${step.among} alike messages` : 'an alike message may have been missed'
  return {
    ts_ns: step.ts_ns,
    stream: step.stream,
    name: String(step.connection ?? ''),
    text: what,
    detail: parts.join(', '),
    outcome: took((step.outcome ?? 'pending') + requeued, step.seconds),
    mood: moodOf(step.outcome),
    doubt: isPublished && !step.sure ? doubt : '',
  }
}

/** Deliveries before those that are left out. */
const KEPT_FIRST = 128

/** The steps of a life, in order; a step without an outcome counts the deliveries that are left out. */
export function lifeSteps(life: Life): LifeStep[] {
  const steps = (life.deliveries ?? []).map((step) => deliveryStep(step, life.publish !== undefined))
  const next = life.deliveries?.[KEPT_FIRST]
  if (life.left_out !== undefined && next !== undefined) {
    const text = `${count(life.left_out)} more deliveries`
    steps.splice(KEPT_FIRST, 0, { ts_ns: next.ts_ns, stream: next.stream, name: '', text, detail: '', outcome: '', mood: 'open', doubt: '' })
  }
  return life.publish === undefined ? steps : [publishStep(life.publish), ...steps]
}
