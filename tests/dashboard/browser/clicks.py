"""Counter of the clicks that a task in the browser takes."""

from typing import Any


class Clicks:
    """Clicks of a task, of which there may be three."""

    def __init__(self) -> None:
        self.count = 0

    def on(self, place: Any, **options: Any) -> None:
        place.click(**options)
        self.count += 1
