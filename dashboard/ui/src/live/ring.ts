/** The newest rows, oldest first, at most `capacity` of them: an older row makes room for a newer one. */
export class Ring<Row> {
  readonly #rows: (Row | undefined)[]
  #start = 0
  #length = 0
  /** How many rows have been dropped from the front, ever: an index plus this stays the same row's for ever. */
  dropped = 0
  /** Grows with each change, so that a painter sees whether there is anything to do. */
  version = 0

  constructor(readonly capacity: number) {
    if (capacity < 1) throw new RangeError('a ring has room for one row at least')
    this.#rows = new Array<Row | undefined>(capacity)
  }

  get length(): number {
    return this.#length
  }

  at(index: number): Row | undefined {
    if (index < 0 || index >= this.#length) return undefined
    return this.#rows[(this.#start + index) % this.capacity]
  }

  get first(): Row | undefined {
    return this.at(0)
  }

  get last(): Row | undefined {
    return this.at(this.#length - 1)
  }

  push(rows: readonly Row[]): void {
    if (rows.length === 0) return
    for (const row of rows) {
      if (this.#length === this.capacity) {
        this.#rows[this.#start] = row
        this.#start = (this.#start + 1) % this.capacity
        this.dropped += 1
      } else {
        this.#rows[(this.#start + this.#length) % this.capacity] = row
        this.#length += 1
      }
    }
    this.version += 1
  }

  /**
   * Add rows in the order of their keys, each once. They are nearly always newer than all others; of a command on which
   * a filter had to wait, the first frames may come behind newer rows of other connections.
   */
  merge(rows: readonly Row[], keyOf: (row: Row) => number): void {
    const sorted = [...rows].sort((a, b) => keyOf(a) - keyOf(b))
    const first = sorted[0]
    if (first === undefined) return
    if (this.last === undefined || keyOf(first) > keyOf(this.last)) return this.push(sorted)
    const from = this.search(keyOf(first), keyOf)
    const tail = new Map(sorted.map((row) => [keyOf(row), row]))
    for (let index = from; index < this.#length; index += 1) tail.set(keyOf(this.at(index)!), this.at(index)!)
    this.#length = from
    this.push([...tail.values()].sort((a, b) => keyOf(a) - keyOf(b)))
  }

  /** Put older rows in front, as many of the newest of them as there is room for; returns how many these were. */
  unshift(rows: readonly Row[]): number {
    const count = Math.min(rows.length, this.capacity - this.#length)
    if (count === 0) return 0
    this.#start = (this.#start - count + this.capacity) % this.capacity
    for (let index = 0; index < count; index += 1) {
      this.#rows[(this.#start + index) % this.capacity] = rows[rows.length - count + index]
    }
    this.#length += count
    this.dropped -= count
    this.version += 1
    return count
  }

  clear(): void {
    this.#rows.fill(undefined)
    this.dropped += this.#length
    this.#start = 0
    this.#length = 0
    this.version += 1
  }

  /** The index of the first row whose key is not below `key`, of rows that are sorted by it. */
  search(key: number, keyOf: (row: Row) => number): number {
    let low = 0
    let high = this.#length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (keyOf(this.at(middle)!) < key) low = middle + 1
      else high = middle
    }
    return low
  }
}
