"""A connection that reports its methods to an observer."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.frame_reader import MAX_HEADER
from amqproxy.amqp091.tally import Tally
from amqproxy.amqp091.transitions import Peer
from amqproxy.taps.topology.client_requests import OBSERVED


class WatchedConnection(Connection):
    """A `Connection` that calls `on_method`, if set, with each accepted frame of a method in `OBSERVED`.

    On the client's leg, these are the client's requests and the replies to them, after any changes by rules.
    """

    __slots__ = ("on_method",)

    def __init__(
        self, *, initial_frame_max: int, header_max: int = MAX_HEADER, tallies: dict[Peer, Tally] | None = None
    ) -> None:
        super().__init__(initial_frame_max=initial_frame_max, header_max=header_max, tallies=tallies)
        self.on_method: Callable[[Peer, Frame], None] | None = None

    def receive(self, sender: Peer, frame: Frame) -> bool:
        is_live = super().receive(sender, frame)
        if is_live and frame.kind == METHOD and OBSERVED[sender][frame.index] and self.on_method is not None:
            self.on_method(sender, frame)
        return is_live
