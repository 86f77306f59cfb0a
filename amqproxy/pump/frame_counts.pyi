"""What of `frame_counts` is seen from Python, where it is compiled."""

from typing import Any

class FrameCounts:
    def __init__(self, kinds: int) -> None: ...
    def collect(self, tallies: tuple[Any, Any]) -> None: ...
