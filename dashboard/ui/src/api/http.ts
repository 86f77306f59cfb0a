import type { Value } from './types'

/** An error of the server, as RFC 9457 describes it; `at` is the place in the text that was sent. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly at: number | null = null,
    readonly line: number | null = null,
  ) {
    super(detail || title)
  }
}

export type Parameters = { [name: string]: string | number | boolean | null | undefined }

/** The URL of a request, without parameters that are empty. */
export function address(path: string, parameters: Parameters = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== '') search.set(name, String(value))
  }
  const query = search.toString()
  return `/api/v1${path}${query ? `?${query}` : ''}`
}

async function answer(response: Response): Promise<unknown> {
  if (response.ok) return response.status === 204 ? null : await response.json()
  let body: Record<string, unknown> = {}
  try {
    body = (await response.json()) as Record<string, unknown>
  } catch {
    // What a proxy in front of the server answered need not be JSON.
  }
  const at = typeof body.at === 'number' ? body.at : null
  const line = typeof body.line === 'number' ? body.line : null
  const detail = typeof body.detail === 'string' ? body.detail : ''
  throw new Problem(response.status, String(body.title ?? response.statusText), detail, at, line)
}

async function send(method: string, url: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
  const init: RequestInit = { method, signal, credentials: 'same-origin', headers: { accept: 'application/json' } }
  if (body !== undefined) {
    init.headers = { ...init.headers, 'content-type': 'application/json' }
    init.body = JSON.stringify(body)
  }
  let response: Response
  try {
    response = await fetch(url, init)
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === 'AbortError') throw problem
    throw new Problem(0, 'not reachable', 'The dashboard’s server does not answer.')
  }
  return answer(response)
}

export async function get<Answer>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<Answer> {
  return (await send('GET', address(path, parameters), undefined, signal)) as Answer
}

export async function post<Answer = Value>(path: string, body: unknown = {}): Promise<Answer> {
  return (await send('POST', address(path), body)) as Answer
}

export async function put<Answer = Value>(path: string, body: unknown = {}): Promise<Answer> {
  return (await send('PUT', address(path), body)) as Answer
}

export async function remove<Answer = Value>(path: string): Promise<Answer> {
  return (await send('DELETE', address(path))) as Answer
}

/** The list in an answer, which may be the answer itself or be named in it. */
export function listed<Item>(answered: unknown, name: string): Item[] {
  if (Array.isArray(answered)) return answered as Item[]
  const named = (answered as Record<string, unknown> | null)?.[name]
  return Array.isArray(named) ? (named as Item[]) : []
}
