"""One leg of a session as the watchdog sees it, whichever protocol its peer speaks: is its peer still there?"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.turns import Turn, TurnQueue
from amqproxy.sockets.transport import Transport

HEARTBEAT_LEEWAY = 2.0
"""Seconds by which the other peer may notice sooner than we do that one is silent: each looks when it does."""


class BeatingConnection(Protocol):
    """A connection whose peers have agreed on a heartbeat, in seconds; 0 where they have not."""

    heartbeat: int

    def note_received(self, sender: Peer, now: float) -> None: ...

    def is_silent(self, sender: Peer, now: float) -> bool: ...

    def is_heartbeat_due(self, sender: Peer, now: float) -> bool: ...

    def heard(self, sender: Peer, now: float) -> float: ...


ConnectionT = TypeVar("ConnectionT", bound=BeatingConnection)


class WatchedLeg(Generic[ConnectionT]):
    """The `transport` to `peer`, the `connection` on it, and the `turn` in which what comes from there is read."""

    __slots__ = ("_received", "connection", "peer", "transport", "turn")

    def __init__(
        self, peer: Peer, transport: Transport, connection: ConnectionT, turns: TurnQueue | None = None
    ) -> None:
        self.peer = peer
        self.transport = transport
        self.connection = connection
        self.turn = Turn(TurnQueue() if turns is None else turns)
        self._received = -1

    @property
    def name(self) -> str:
        """What the log calls the peer."""
        return "client" if self.peer is CLIENT else "upstream"

    def missed_heartbeats(self, now: float, leeway: float = 0.0) -> str:
        """Why the peer counts as gone since it sends nothing, or will within `leeway` seconds; "" when it does not.

        A peer that is not being read from, because earlier data is still being sent on, is not silent. To be asked at
        intervals: what a peer has sent counts as received when this is asked the next time.
        """
        heartbeat = self.connection.heartbeat
        if not heartbeat:
            return ""
        before, self._received = self._received, self.transport.received
        if self._received != before or not self.transport.is_listening:
            self.connection.note_received(self.peer, now)
        elif self.connection.is_silent(self.peer, now + min(leeway, heartbeat)):
            return f"missed its heartbeats, of which there is one in {heartbeat} s"
        return ""

    def heard(self, now: float) -> float:
        """When the peer was heard last, as far as that is known; `now` where it may be since that was asked last."""
        return self.connection.heard(self.peer, now) if self._received == self.transport.received else now

    def note_heard(self, at: float) -> None:
        """The last that has been received came at that time."""
        self._received = self.transport.received
        self.connection.note_received(self.peer, at)
