"""One leg of a session of AMQP 0-10: the transport to one peer, and the connection state on it."""

from __future__ import annotations

from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.tally import Tally
from amqproxy.peer import Peer
from amqproxy.sockets.transport import Transport

MOST_RETAINED = 256
"""Detached sessions that are remembered in case their client comes back: of others, only what is new is known."""


class AMQP010Leg:
    """The transport to `peer`, its `reader`, and the `Connection` in which we play the other part.

    The peer's frames count into `tally`.
    """

    __slots__ = ("connection", "peer", "reader", "transport")

    def __init__(self, peer: Peer, transport: Transport, tallies: dict[Peer, Tally] | None = None) -> None:
        self.peer = peer
        self.transport = transport
        self.connection = Connection(initial_frame_max=0, tallies=tallies, most_retained=MOST_RETAINED)
        self.reader = self.connection.readers[peer]
        self.reader.zero_copy = True

    @property
    def name(self) -> str:
        """What the log calls the peer."""
        return "client" if self.peer is Peer.CLIENT else "upstream"
