import type { Ring } from './ring'
import { isAtEnd, scrolledTo, windowOf } from './window'

/** A column of a list: what it says of a row, in text only. */
export interface Column<Row> {
  title: string
  /** Its track in the grid, such as `90px` or `1fr`. */
  width: string
  text: (row: Row) => string
  className?: (row: Row) => string
  /** What a screen reader says, where the text is a sign. */
  label?: (row: Row) => string
  /** Only shown where there is much room. */
  isRoomy?: boolean
  /** Also shown where the screen is narrow; and how wide it is there. */
  narrow?: string
  align?: 'end'
}

export const ROW_HEIGHT = 22
/** The line of headings, which stays at the top of the view. */
const HEAD_HEIGHT = 23

interface Line<Row> {
  element: HTMLElement
  cells: HTMLElement[]
  row: Row | null
  index: number
  isSelected: boolean
  isOld?: boolean
}

/** The classes of a column's cells, by where it is shown. */
export function cellClass<Row>(column: Column<Row>): string {
  return `cell${column.narrow ? '' : ' wide-only'}${column.isRoomy ? ' roomy-only' : ''}${column.align ? ' number' : ''}`
}

/**
 * Paints the rows in view into a pool of elements, outside of any framework: each frame that something comes in, and
 * only what has changed. Everything from messages goes through `textContent`.
 */
export class RowPainter<Row extends { seq: number }> {
  /** Whether the newest rows are kept in view. */
  isFollowing = true
  selected: number | null = null
  #lines: Line<Row>[] = []
  #height = -1
  /** Where the selected row was found last: its index, and all that has been dropped before it. */
  #selectedAt = -1
  /** Where the list was scrolled to last by this, not by the reader. */
  #placed = -1
  /** A selected row that is to be in view as soon as it is here. */
  #sought: number | null = null
  #dropped: number

  constructor(
    readonly id: string,
    readonly view: HTMLElement,
    readonly sheet: HTMLElement,
    readonly ring: Ring<Row>,
    readonly columns: readonly Column<Row>[],
    readonly rowClass: (row: Row) => string,
  ) {
    this.#dropped = ring.dropped
  }

  /** Whether all rows are in view. */
  get fits(): boolean {
    return this.ring.length * ROW_HEIGHT <= this.#room
  }

  /** The reader has scrolled. */
  scrolled(): void {
    if (this.view.scrollTop === this.#placed) return // that was us, and the event comes late
    this.#placed = -1
    this.isFollowing = isAtEnd(this.#height, this.view.scrollTop, this.#room, ROW_HEIGHT)
  }

  /** Begin anew: at the end, or at the selected row once it is here. */
  reset(): void {
    this.isFollowing = true
    this.#sought = this.selected
    this.#dropped = this.ring.dropped
  }

  /** The index of the selected row; -1 where it is not here. */
  get selectedIndex(): number {
    if (this.selected === null) return -1
    const hint = this.#selectedAt - this.ring.dropped
    if (this.ring.at(hint)?.seq === this.selected) return hint
    // A filter may show a row later than one behind it, so that the order of the numbers is not quite strict.
    const about = this.ring.search(this.selected, (row) => row.seq)
    for (let index = Math.max(0, about - 500); index < Math.min(this.ring.length, about + 500); index += 1) {
      if (this.ring.at(index)!.seq === this.selected) {
        this.#selectedAt = index + this.ring.dropped
        return index
      }
    }
    return -1
  }

  /** Select a row and have it in view. */
  select(index: number): Row | undefined {
    const place = Math.max(0, Math.min(this.ring.length - 1, index))
    const row = this.ring.at(place)
    if (!row) return undefined
    this.selected = row.seq
    this.#selectedAt = place + this.ring.dropped
    this.isFollowing = false
    this.reveal()
    return row
  }

  reveal(): void {
    const index = this.selectedIndex
    if (index < 0) {
      this.#sought = this.selected
      return
    }
    this.#stretch()
    this.isFollowing = false
    this.#scroll(scrolledTo(index, ROW_HEIGHT, this.view.scrollTop, this.#room))
  }

  /** The row that an element shows. */
  rowOf(target: EventTarget | null): Row | null {
    const element = (target as Element | null)?.closest?.('[data-line]') as HTMLElement | null
    return element ? (this.#lines[Number(element.dataset.line)]?.row ?? null) : null
  }

  /** What is shown of the rows has changed, such as the names of clients: write all lines anew. */
  rewrite(): void {
    for (const line of this.#lines) line.isOld = true
    this.paint()
  }

  paint(): void {
    const { ring, view } = this
    const moved = ring.dropped - this.#dropped
    this.#dropped = ring.dropped
    this.#stretch()
    if (this.#sought !== null && this.#sought === this.selected && this.selectedIndex >= 0) {
      this.#sought = null
      this.reveal()
    } else if (this.isFollowing) this.#scroll(this.#height)
    else if (moved) this.#scroll(Math.max(0, view.scrollTop - moved * ROW_HEIGHT))

    const { from, to } = windowOf(ring.length, ROW_HEIGHT, view.scrollTop, view.clientHeight)
    while (this.#lines.length < to - from) this.#lines.push(this.#line())
    const size = this.#lines.length
    const used = new Set<number>()
    for (let index = from; index < to; index += 1) {
      // The same row stays in the same element while the list moves, so that only new ones are written.
      const slot = (((index + ring.dropped) % size) + size) % size
      used.add(slot)
      this.#write(this.#lines[slot]!, ring.at(index)!, index)
    }
    for (let slot = 0; slot < size; slot += 1) {
      const line = this.#lines[slot]!
      if (!used.has(slot) && line.row) {
        line.row = null
        line.element.hidden = true
      }
    }
    const selected = this.selectedIndex
    if (selected >= from && selected < to) {
      this.view.setAttribute('aria-activedescendant', `${this.id}-${(((selected + ring.dropped) % size) + size) % size}`)
    } else this.view.removeAttribute('aria-activedescendant')
  }

  #scroll(top: number): void {
    this.view.scrollTop = top
    this.#placed = this.view.scrollTop
  }

  get #room(): number {
    return this.view.clientHeight - HEAD_HEIGHT
  }

  #stretch(): void {
    const rows = this.ring.length * ROW_HEIGHT
    // At the end of the list, a whole row is to be at the top of the view too.
    const beyond = rows - this.#room
    const height = rows + (beyond > 0 ? (ROW_HEIGHT - (beyond % ROW_HEIGHT)) % ROW_HEIGHT : 0)
    if (height === this.#height) return
    this.#height = height
    this.sheet.style.height = `${height}px`
  }

  #line(): Line<Row> {
    const element = document.createElement('div')
    const slot = this.#lines.length
    element.id = `${this.id}-${slot}`
    element.dataset.line = String(slot)
    element.setAttribute('role', 'row')
    element.className = 'line'
    const cells = this.columns.map((column) => {
      const cell = document.createElement('span')
      cell.setAttribute('role', 'gridcell')
      cell.className = cellClass(column)
      element.append(cell)
      return cell
    })
    this.sheet.append(element)
    return { element, cells, row: null, index: -1, isSelected: false }
  }

  #write(line: Line<Row>, row: Row, index: number): void {
    const { element } = line
    const isSelected = row.seq === this.selected
    if (line.row !== row || line.isOld) {
      line.isOld = false
      if (!line.row) element.hidden = false
      line.row = row
      element.className = `line ${this.rowClass(row)}`
      this.columns.forEach((column, place) => {
        const cell = line.cells[place]!
        const text = column.text(row)
        if (cell.textContent !== text) cell.textContent = text
        if (column.className) {
          cell.className = `${cellClass(column)} ${column.className(row)}`
        }
        if (column.label) {
          cell.title = column.label(row)
          cell.setAttribute('aria-label', cell.title)
        }
      })
      line.isSelected = !isSelected
    }
    if (line.isSelected !== isSelected) {
      line.isSelected = isSelected
      element.setAttribute('aria-selected', String(isSelected))
      element.classList.toggle('selected', isSelected)
    }
    if (line.index !== index) {
      line.index = index
      element.style.transform = `translateY(${index * ROW_HEIGHT}px)`
      element.setAttribute('aria-rowindex', String(index + 2))
    }
  }
}
