"""Python's view of the compiled `frame_scanner`."""

from amqproxy.pump.tallies import Tallies

class FrameScanner:
    def __init__(self, kinds: int, tallies: Tallies | None) -> None: ...
    def collect(self) -> None: ...
