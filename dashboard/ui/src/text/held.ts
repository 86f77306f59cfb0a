import type { Held, Table } from '../api/types'

/** A held body, as it can be edited. */
export function bodyText(command: Held): string {
  return typeof command.body === 'string' ? command.body : command.body === undefined ? '' : JSON.stringify(command.body, null, 2)
}

/** Only what was changed: what is not named stays as it is. Throws where the headers are not JSON. */
export function changesOf(command: Held, routingKey: string, headers: string, body: string): Table {
  const change: Table = {}
  if (routingKey !== String(command.arguments?.routing_key ?? '')) change.fields = { routing_key: routingKey }
  if (body !== bodyText(command)) change.body = body
  const wanted = JSON.parse(headers || '{}') as Table
  const before = (command.properties?.headers ?? {}) as Table
  const changed: Table = {}
  for (const [name, value] of Object.entries(wanted)) {
    if (JSON.stringify(before[name]) !== JSON.stringify(value)) changed[name] = value
  }
  for (const name of Object.keys(before)) if (!(name in wanted)) changed[name] = null
  if (Object.keys(changed).length) change.headers = changed
  return change
}

/** Whether all of the body is here, as text. */
export function isWhole(command: Held): boolean {
  if (command.size === undefined) return true
  return typeof command.body === 'string' && new TextEncoder().encode(command.body).length === command.size
}
