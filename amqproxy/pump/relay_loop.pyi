"""Python's view of the compiled `relay_loop`."""

from amqproxy.pump.journal import Journal
from amqproxy.pump.latency_counts import LatencyCounts

SCRATCH: int
MOST_HELD: int
SMALL: int

class RelayLoop:
    def __init__(
        self,
        journal: Journal,
        latencies: LatencyCounts,
        commands: int,
        returns: int,
        stuck_after: float,
    ) -> None: ...
    @property
    def has_unfinished(self) -> bool: ...
    @property
    def has_stalled(self) -> bool: ...
