/** Which rows of a long list are in view. */
export interface Window {
  /** The first row to paint, and the one behind the last. */
  from: number
  to: number
}

/** The rows in a view of `height` pixels that is scrolled down by `top`, and `spare` more at both ends. */
export function windowOf(length: number, rowHeight: number, top: number, height: number, spare = 4): Window {
  const from = Math.max(0, Math.min(length, Math.floor(top / rowHeight) - spare))
  const to = Math.max(from, Math.min(length, Math.ceil((top + height) / rowHeight) + spare))
  return { from, to }
}

/** Whether a view is scrolled to its end, give or take half a row. */
export function isAtEnd(total: number, top: number, height: number, rowHeight: number): boolean {
  return top + height >= total - rowHeight / 2
}

/** How far to scroll so that the row is in view: as little as possible. */
export function scrolledTo(index: number, rowHeight: number, top: number, height: number): number {
  const begin = index * rowHeight
  if (begin < top) return begin
  if (begin + rowHeight > top + height) return Math.max(0, begin + rowHeight - height)
  return top
}
