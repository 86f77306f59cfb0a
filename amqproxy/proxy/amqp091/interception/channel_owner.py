"""What a `ChannelInterceptor` may ask of the connection that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.rules.verdict import Stage


class ChannelOwner(Protocol):
    """What a channel may ask of its connection; nothing changes by being asked."""

    @property
    def connections(self) -> Mapping[Peer, Connection]:
        """The legs', by the peer at their other end."""

    @property
    def readers(self) -> Mapping[Peer, FrameReader]:
        """Where the frames of each sender come from."""

    @property
    def loads(self) -> Mapping[Peer, QueuedBytes]: ...

    @property
    def gathering(self) -> QueuedBytes: ...

    @property
    def share(self) -> MemoryShare: ...

    @property
    def is_tapped(self) -> bool:
        """Do taps see what passes?"""

    @property
    def counts_unacked(self) -> bool:
        """Do rules ask how many deliveries are not acknowledged?"""

    @property
    def numbers_confirms(self) -> bool:
        """Do confirms have to be numbered from the first on?"""

    @property
    def current(self) -> tuple[Peer, int] | None:
        """Whose frame is under way, and on which channel; its reader may be further."""

    def stage(self, sender: Peer, frame: Frame) -> Stage:
        """How much of the command that a method begins must come before it can be evaluated."""

    def covered(self, sender: Peer, command: Command) -> Command | None:
        """A command as taps may see it; None: not at all."""

    def holds_up(self, sender: Peer) -> bool:
        """Does anything of the sender's wait, on any channel?"""
