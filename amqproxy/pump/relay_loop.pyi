"""What of `relay_loop` is seen from Python, where it is compiled."""

from amqproxy.pump.amqp010_frame_scanner import Amqp010FrameScanner
from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.journal import Journal
from amqproxy.pump.latency_counts import LatencyCounts

SCRATCH: int
MOST_HELD: int

class RelayLoop:
    def __init__(
        self,
        scanner: FrameScanner,
        amqp010_scanner: Amqp010FrameScanner,
        journal: Journal,
        latencies: LatencyCounts,
        commands: int,
        returns: int,
        stuck_after: float,
    ) -> None: ...
    @property
    def has_stalled(self) -> bool: ...
