"""What of `frame_scanner` is seen from Python, where it is compiled."""

from amqproxy.amqp091.tally import Tally

class FrameScanner:
    def __init__(self, keeps: tuple[bytes, bytes], largest: int) -> None: ...
    def collect(self, tallies: tuple[Tally, Tally]) -> None: ...
