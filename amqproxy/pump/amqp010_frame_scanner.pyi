"""What of `amqp010_frame_scanner` is seen from Python, where it is compiled."""

from amqproxy.amqp010.tally import Tally

class Amqp010FrameScanner:
    def __init__(self, keeps: bytes) -> None: ...
    def collect(self, tallies: tuple[Tally, Tally]) -> None: ...
