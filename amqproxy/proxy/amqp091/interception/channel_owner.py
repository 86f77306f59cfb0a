"""The interface between a `ChannelInterceptor` and the connection that it belongs to."""

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
    """A channel's read-only view of its connection."""

    @property
    def connections(self) -> Mapping[Peer, Connection]:
        """Connection state of each leg, by the peer at its other end."""

    @property
    def readers(self) -> Mapping[Peer, FrameReader]:
        """Frame readers by the sender of the frames."""

    @property
    def loads(self) -> Mapping[Peer, QueuedBytes]: ...

    @property
    def gathering(self) -> QueuedBytes: ...

    @property
    def share(self) -> MemoryShare: ...

    @property
    def is_tapped(self) -> bool:
        """Whether taps see the passing frames."""

    @property
    def counts_unacked(self) -> bool:
        """Whether rules use the number of unacknowledged deliveries."""

    @property
    def numbers_confirms(self) -> bool:
        """Whether confirms have to be translated from the first one on."""

    @property
    def current(self) -> tuple[Peer, int] | None:
        """The sender and channel of the frame in progress; its reader may be ahead of it."""

    def stage(self, sender: Peer, frame: Frame) -> Stage:
        """Return how much of the command begun by a method is needed to evaluate it."""

    def covered(self, sender: Peer, command: Command) -> Command | None:
        """Return a command as taps may see it, redacted; `None` if it may not be shown at all."""

    def holds_up(self, sender: Peer) -> bool:
        """Whether any frame of the sender is queued, on any channel."""
