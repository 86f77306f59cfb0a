import type { Field, Value } from '../api/types'

/** One line of a field tree: a field, how deep it is, and its names from the top. */
export interface FieldLine {
  field: Field
  depth: number
  path: string[]
  /** The path as text, which is unique in the tree. */
  id: string
  hasChildren: boolean
}

/** The lines that are shown of a tree: all but those below a field that is closed. */
export function fieldLines(fields: readonly Field[], closed: ReadonlySet<string>): FieldLine[] {
  const lines: FieldLine[] = []
  const add = (each: Field, depth: number, above: string[], place: number) => {
    const path = [...above, each.name]
    const id = `${above.join('/')}/${place}:${each.name}`
    const hasChildren = (each.children?.length ?? 0) > 0
    lines.push({ field: each, depth, path, id, hasChildren })
    if (hasChildren && !closed.has(id)) each.children!.forEach((child, index) => add(child, depth + 1, path, index))
  }
  fields.forEach((each, index) => add(each, 0, [], index))
  return lines
}

/** The deepest field that a byte belongs to. */
export function fieldAt(fields: readonly Field[], offset: number): Field | null {
  for (const field of fields) {
    if (offset < field.start || offset >= field.end) continue
    return fieldAt(field.children ?? [], offset) ?? field
  }
  return null
}

/** The bytes of base64. */
export function decodeBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

/** A value in full, for a person. */
export function fullText(value: Value): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2)
}
