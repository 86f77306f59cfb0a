/** Paints once per animation frame, however often it is asked to. */
export class Painter {
  #asked = 0

  constructor(readonly paint: () => void) {}

  ask(): void {
    if (this.#asked) return
    this.#asked = requestAnimationFrame(() => {
      this.#asked = 0
      this.paint()
    })
  }

  stop(): void {
    cancelAnimationFrame(this.#asked)
    this.#asked = 0
  }
}
