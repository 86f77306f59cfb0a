"""Python's view of the compiled `frame_scanner`."""

from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.tallies import Tallies

class Amqp010FrameScanner(FrameScanner):
    def __init__(self, keeps: bytes, tallies: Tallies | None = None) -> None: ...
