import { describe, expect, it } from 'vitest'
import type { Vocabulary } from '../src/text/completion'
import { ruleCompletionsAt, type RuleVocabulary } from '../src/text/rule_completion'

const text = { kind: 'a text', values: [], tables: [] }
const common = { name: text, match: { kind: 'a table', values: [], tables: ['Match'] }, when: text, mode: { kind: 'one of a few', values: ['enforce', 'shadow'], tables: [] } }
const words: RuleVocabulary = {
  rules: ['Hold', 'Fault'],
  tables: {
    Hold: { tag: ['action', 'hold'], meaning: 'Hold a command', keys: { ...common, on_timeout: { kind: 'one of a few', values: ['pass', 'refuse'], tables: [] } } },
    Fault: { tag: ['action', 'fault'], meaning: 'Apply a fault', keys: { ...common, fault: { kind: 'a table', values: [], tables: ['Nack', 'Delay'] } } },
    Nack: { tag: ['kind', 'nack'], meaning: 'Nack it', keys: {} },
    Delay: { tag: ['kind', 'delay'], meaning: 'Delay it', keys: { seconds: { kind: 'a number', values: [], tables: [] } } },
    Match: { tag: null, meaning: 'Conditions', keys: { method: { kind: 'a text', values: ['basic.publish', 'basic.ack'], tables: [] }, exchange: text } },
  },
}
const vocabulary: Vocabulary = {
  fields: [{ path: 'exchange', kind: 'a text', meaning: 'of messages' }],
  values: { exchange: ['orders', 'a b'], method: ['basic.publish'] },
}

/** What the text becomes by each completion, where `|` is the caret: the caret's line of it. */
function complete(marked: string) {
  const caret = marked.indexOf('|')
  const given = marked.replace('|', '')
  const { from, items } = ruleCompletionsAt(given, caret, words, vocabulary)
  const line = given.slice(0, caret).split('\n').length - 1
  return items.map((each) => (given.slice(0, from) + each.insert + given.slice(caret)).split('\n')[line]!.trimStart())
}

describe('completion of rules', () => {
  it('of an action and its keys', () => {
    expect(complete('rules:\n- name: a\n  act|')).toEqual(['action: '])
    expect(complete('rules:\n- name: a\n  action: |')).toEqual(['action: hold', 'action: fault'])
    expect(complete('rules:\n- name: a\n  action: fa|')).toEqual(['action: fault'])
    expect(complete('rules:\n- action: hold\n  on|\n  name: a')).toEqual(['on_timeout: '])
    expect(complete('rules:\n  - action: hold\n    on_timeout: |')).toEqual(['on_timeout: pass', 'on_timeout: refuse'])
    expect(complete('rules:\n- action: fault\n  on|')).toEqual([])
    expect(complete('rules:\n- action: fault\n  n|\n- action: hold\n  name: a')).toEqual(['name: ', 'when: '])
    expect(complete('rules:\n- action: hold\n  mo|\n  mode: shadow')).toEqual([])
    expect(complete('rules:\n- na|')).toEqual(['- name: '])
  })

  it('of the tables within', () => {
    expect(complete('rules:\n- name: a\n  action: fault\n  fau|')).toEqual(['fault:'])
    expect(complete('rules:\n- action: fault\n  fault:\n    ki|')).toEqual(['kind: '])
    expect(complete('rules:\n- action: fault\n  fault:\n    kind: d|')).toEqual(['kind: delay'])
    expect(complete('rules:\n- action: fault\n  fault:\n    kind: delay\n    se|')).toEqual(['seconds: '])
    expect(complete('rules:\n- action: fault\n  fault:\n    kind: nack\n    se|')).toEqual([])
    expect(complete('rules:\n- match:\n    me|\n  action: hold')).toEqual(['method: '])
    expect(complete('rules:\n- action: hold\n  match:\n    method: basic.|')).toEqual(['method: basic.publish', 'method: basic.ack'])
  })

  it('of values that were seen', () => {
    expect(complete('rules:\n- match:\n    exchange: |')).toEqual(['exchange: orders', 'exchange: "a b"'])
    expect(complete("rules:\n- match:\n    exchange: 'or|")).toEqual(['exchange: orders'])
  })

  it('of a filter', () => {
    expect(complete('rules:\n- when: exc|')).toEqual(['- when: exchange == '])
    expect(complete('rules:\n- when: exchange == "or|')).toEqual(['- when: exchange == "orders"'])
  })

  it('nowhere else', () => {
    expect(complete('ru|')).toEqual([])
    expect(complete('limits:\n- na|')).toEqual([])
    expect(complete('rules:\n- name: a # no|')).toEqual([])
    expect(complete('rules:\n- na|me: a')).toEqual([])
    expect(complete('|')).toEqual([])
  })
})
