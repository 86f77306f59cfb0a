import { describe, expect, it } from 'vitest'
import { completionsAt, type Vocabulary } from '../src/text/completion'

const vocabulary: Vocabulary = {
  fields: [
    { path: 'exchange', kind: 'a text', meaning: 'of messages' },
    { path: 'exchanges', kind: 'a list', meaning: 'all' },
    { path: 'client.name', kind: 'a text', meaning: 'name' },
    { path: 'size', kind: 'a number', meaning: 'bytes' },
  ],
  values: { exchange: ['orders', 'old "orders"', ''], queue: ['jobs'], 'client.name': ['shop'] },
}

function complete(text: string, caret = text.length) {
  const { from, items } = completionsAt(text, caret, vocabulary)
  return items.map((each) => text.slice(0, from) + each.insert + text.slice(caret))
}

describe('completion', () => {
  it('of a field', () => {
    expect(complete('exc')).toEqual(['exchange == ', 'exchanges'])
    expect(complete('size > 1 && na')).toEqual(['size > 1 && client.name == '])
    expect(complete('exc && size > 1', 3)).toEqual(['exchange ==  && size > 1', 'exchanges && size > 1'])
  })

  it('of a value, quoted as CEL has it', () => {
    expect(complete('exchange == ')).toEqual(['exchange == "orders"', 'exchange == "old \\"orders\\""', 'exchange == ""'])
    expect(complete('exchange == "or')).toEqual(['exchange == "orders"', 'exchange == "old \\"orders\\""'])
    expect(complete("exchange != 'orders")).toEqual(['exchange != "orders"', 'exchange != "old \\"orders\\""'])
    expect(complete('exchange in ["orders", "ol')).toEqual(['exchange in ["orders", "old \\"orders\\""'])
    expect(complete('connection_name == sh')).toEqual(['connection_name == "shop"'])
    expect(complete('size == 1')).toEqual([])
  })

  it('of a name that was seen', () => {
    expect(complete('job')).toEqual(['queue == "jobs"'])
    expect(complete('size > 1 && job')).toEqual(['size > 1 && queue == "jobs"'])
  })

  it('not within a text, and not of nothing', () => {
    expect(complete('body.contains("exc')).toEqual([])
    expect(complete('')).toEqual([])
    expect(complete('size > ')).toEqual([])
  })
})
