"""Recording of a replay's live traffic in a store, for comparison with another."""

from __future__ import annotations

from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.decode import Decoder
from amqproxy.capture.stream_events import Closed, Data, Event, Opened, StreamEnd
from amqproxy.comparison.command_store import CommandStore
from amqproxy.replay.traffic_log import endpoints_of


class TrafficStore:
    """Decoder of live traffic into `store`; `epoch_ns` is the time at which the replay's clock was 0.

    `note` is a `Watch`. Connections keep their recorded numbers, and get synthetic addresses derived from these: so the
    connections of two replays of one recording correspond.
    """

    def __init__(self, store: CommandStore, epoch_ns: int) -> None:
        self._store = store
        self._epoch_ns = epoch_ns
        self._decoder = Decoder()
        self._streams: set[int] = set()
        self._last_ns = epoch_ns

    def note(self, stream: int, sender: Peer, data: bytes, now: float) -> None:
        """Store bytes that `sender` has sent."""
        self._last_ns = self._epoch_ns + int(now * 1e9)
        if stream not in self._streams:
            self._streams.add(stream)
            self._feed(Opened(stream, self._last_ns, endpoints_of(stream), True))
        self._feed(Data(stream, 0 if sender is CLIENT else 1, self._last_ns, data))

    def finish(self) -> None:
        """End all connections, and finish the store, which can be read after this."""
        for stream in sorted(self._streams):
            for direction in (0, 1):
                self._feed(Closed(stream, direction, self._last_ns, StreamEnd.FIN))
        self._store.finish()

    def _feed(self, event: Event) -> None:
        for decoded in self._decoder.feed(event):
            self._store.add(decoded)
