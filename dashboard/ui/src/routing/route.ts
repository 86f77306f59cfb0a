/** A place in the dashboard, as its URL has it: a path, and what is looked at. */
export interface Route {
  screen: Screen
  /** Of `/connections/3`, the 3. */
  item: number | null
  query: Query
}

/** What all screens share. */
export interface Query {
  source: number
  filter: string
  /** A range of time, in nanoseconds since 1970; null is open. */
  start: number | null
  end: number | null
  /** The selected row. */
  seq: number | null
  /** What one screen alone knows. */
  [own: string]: string | number | null
}

export const SCREENS = [
  'overview',
  'connections',
  'upstreams',
  'frames',
  'sequence',
  'messages',
  'history',
  'topology',
  'findings',
  'rules',
  'captures',
  'analytics',
  'broker',
] as const
/** Pages of one name each, which is in the query. */
export const SUBJECTS = ['client', 'user', 'exchange', 'queue'] as const
export type SubjectKind = (typeof SUBJECTS)[number]
export type Screen = (typeof SCREENS)[number] | SubjectKind

export const NO_QUERY: Query = { source: 0, filter: '', start: null, end: null, seq: null }

const NUMBERS = new Set(['source', 'start', 'end', 'seq'])

function number(text: string | null): number | null {
  return text !== null && /^\d+$/.test(text) ? Number(text) : null
}

/** What a URL leads to; what cannot be understood leads to the overview. */
export function parseRoute(url: URL): Route {
  const [name, rest] = url.pathname.split('/').filter(Boolean)
  const screen = [...SCREENS, ...SUBJECTS].find((each) => each === name) ?? 'overview'
  const query: Query = { ...NO_QUERY }
  for (const [key, value] of url.searchParams) {
    if (!NUMBERS.has(key)) query[key] = value
  }
  query.source = number(url.searchParams.get('source')) ?? 0
  query.start = number(url.searchParams.get('start'))
  query.end = number(url.searchParams.get('end'))
  query.seq = number(url.searchParams.get('seq'))
  return { screen, item: number(rest ?? null), query }
}

/** The URL of a place, without what has its usual value. */
export function formatRoute(route: Route): string {
  const search = new URLSearchParams()
  for (const [key, value] of Object.entries(route.query)) {
    if (value !== null && value !== '' && value !== NO_QUERY[key]) search.set(key, String(value))
  }
  const query = search.toString()
  return `/${route.screen}${route.item === null ? '' : `/${route.item}`}${query ? `?${query}` : ''}`
}
