"""Positions of one connection's requests among their senders' frames, kept until the answers bring the outcomes."""

from __future__ import annotations

from typing import Any

from amqproxy.comparison.dialects import DIALECTS
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.events import CommandMethod, Method

MAX_REQUESTS = 65_536
"""Requests of one connection whose places are remembered until they are answered."""


class RequestPlaces:
    """Numbering of each peer's frames from 1, without heartbeats: `counts` holds the latest numbers."""

    __slots__ = ("_requests", "counts")

    def __init__(self) -> None:
        self.counts = {CLIENT: 0, SERVER: 0}
        self._requests: dict[int, tuple[int, Method]] = {}

    def take(self, sender: Peer, frame: Any) -> Method | None:
        """Number a frame; return the method in it, unless it is malformed, or in several frames."""
        dialect = DIALECTS[type(frame)]
        if dialect.is_heartbeat(frame):
            return None
        self.counts[sender] += 1
        method: Method | None = dialect.method_of(frame)
        if method is not None and dialect.is_request(method):
            self._note(sender, method)
        return method

    def _note(self, sender: Peer, method: Method) -> None:
        if len(self._requests) < MAX_REQUESTS:
            # The trace reports the same method object that it was given; keeping it here keeps its id unique.
            self._requests[id(method)] = (self.counts[sender], method)

    def place_of(self, request: CommandMethod, sender: Peer) -> int:
        """Return the number of an answered request's frame; that of the sender's latest frame if it is not known."""
        found = self._requests.pop(id(request), None)
        return self.counts[sender] if found is None else found[0]
