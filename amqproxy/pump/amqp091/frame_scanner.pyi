"""Python's view of the compiled `frame_scanner`."""

from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.tallies import Tallies

class Amqp091FrameScanner(FrameScanner):
    def __init__(self, keeps: tuple[bytes, bytes], largest: int, tallies: Tallies | None = None) -> None: ...
