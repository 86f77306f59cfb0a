import { formatRoute, NO_QUERY, parseRoute, type Query, type Route, type Screen } from './route'

/** Where the reader is, and the ways to somewhere else. */
class Router {
  route: Route = $state.raw(parseRoute(new URL(location.href)))

  constructor() {
    addEventListener('popstate', () => {
      this.route = parseRoute(new URL(location.href))
    })
  }

  get query(): Query {
    return this.route.query
  }

  /** The URL of a screen; of what is looked at, the source stays, and what is named. */
  href(screen: Screen, query: Partial<Query> = {}, item: number | null = null): string {
    return formatRoute({ screen, item, query: { ...NO_QUERY, source: this.route.query.source, ...query } as Query })
  }

  go(url: string): void {
    if (url === location.pathname + location.search) return
    history.pushState(null, '', url)
    this.route = parseRoute(new URL(location.href))
  }

  /** Look at something else on the same screen. Small steps, such as from row to row, replace the entry in the history. */
  look(query: Partial<Query>, { replace = false } = {}): void {
    const route = { ...this.route, query: { ...this.route.query, ...query } as Query }
    const url = formatRoute(route)
    if (url === location.pathname + location.search) return
    if (replace) history.replaceState(null, '', url)
    else history.pushState(null, '', url)
    this.route = route
  }

  /** Follow a link within the page, as a click on it would, unless it is to open elsewhere. */
  follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return
    const link = (event.target as Element).closest('a')
    if (!link || link.origin !== location.origin || link.target || link.hasAttribute('download')) return
    if (link.pathname.startsWith('/api/')) return
    event.preventDefault()
    this.go(link.pathname + link.search)
  }
}

export const router = new Router()
