"""Steps of a recorded connection: one value for each command, greeting, fault, and the end."""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.taps.trace.snapshot import ConnectionSnapshot


class StepBase(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The base of all steps.

    `index` numbers the steps of a capture in order; `stream` and `connection` are as in `DecodedFrames`.
    """

    index: int
    ts_ns: int
    stream: int
    connection: str


class SentStep(StepBase, frozen=True, kw_only=True, gc=False):
    """A complete command or control of a protocol. `is_wanted` is False if a selection excludes it from the replay.

    Each protocol derives its own class, with the type of its `command`, and what differs of the properties here.
    """

    protocol: ClassVar[str]
    """Name of its protocol."""
    ERRORS: ClassVar[tuple[type[Exception], ...]]
    """Exceptions for a malformed command."""

    sender: Peer
    command: Any
    is_wanted: bool = True

    @property
    def channel(self) -> int:
        """Number of its channel or session."""
        channel: int = self.command.channel
        return channel

    @property
    def is_readable(self) -> bool:
        """Whether its method and header are not malformed."""
        try:
            _ = self.command.method, self.command.header
        except self.ERRORS:
            return False
        return True

    @property
    def method(self) -> Any:
        """Its method; None if that is malformed."""
        try:
            return self.command.method
        except self.ERRORS:
            return None

    @property
    def size(self) -> int:
        """Bytes of its frames."""
        return sum([frame.length() for frame in self.command.frames])

    @property
    def is_on_channel(self) -> bool:
        """Whether it belongs to a channel or session, not to the whole connection."""
        return self.channel != 0

    @property
    def message(self) -> Command | None:
        """The message that it publishes or delivers, in its 0-9-1 view; None without one, or if it is malformed."""
        raise NotImplementedError

    @property
    def method_name(self) -> str | None:
        """Name of its method; None if that is malformed."""
        method = self.method
        return None if method is None else str(method.name)

    @property
    def is_plumbing(self) -> bool:
        """Whether it opens or closes its channel, session or connection."""
        return (self.method_name or "").startswith(_PLUMBING)


_PLUMBING = ("connection.", "channel.", "session.")

_MESSAGES = frozenset({"basic.publish", "basic.deliver", "basic.get-ok"})


class CommandSent(SentStep, frozen=True, kw_only=True, gc=False):
    """A complete 0-9-1 command. Its `frames` are as recorded; a method may turn out to be malformed.

    If `command` is the 0-9-1 view of a command of another protocol, `name` is the name of that command, and `session`
    the channel of its session.
    """

    protocol = NAME
    ERRORS = (ProtocolError,)

    command: Command
    name: str = ""
    session: int | None = None

    @property
    def channel(self) -> int:
        return self.command.channel if self.session is None else self.session

    @property
    def method_name(self) -> str | None:
        return self.name or super().method_name

    @property
    def message(self) -> Command | None:
        command = self.command
        is_message = self.is_readable and command.method.name in _MESSAGES and command.header is not None
        return command if is_message else None


class ProtocolHeaderSent(StepBase, frozen=True, kw_only=True, gc=False):
    """A protocol header, or the bytes in its place: the first ones of a direction."""

    sender: Peer
    protocol: str
    data: bytes


class BytesSent(StepBase, frozen=True, kw_only=True, gc=False):
    """Completely captured bytes that are not a frame, and the reply `code` that a peer would answer with."""

    sender: Peer
    data: bytes
    reason: str
    code: int | None = None


class BytesLost(StepBase, frozen=True, kw_only=True, gc=False):
    """Bytes that are not in the capture, or were not kept, so that `sender`'s commands in them are unknown.

    `protocol` is the name of their protocol if that is not 0-9-1.
    """

    sender: Peer
    lost: int
    reason: str
    protocol: str = ""


class ConnectionRestored(StepBase, frozen=True, kw_only=True, gc=False):
    """The state of a connection whose beginning is not in the capture, which a client would bring about."""

    snapshot: ConnectionSnapshot
    sender: Peer = CLIENT

    @property
    def protocol(self) -> str:
        return self.snapshot.protocol


class ConnectionEnded(StepBase, frozen=True, kw_only=True, gc=False):
    """The end of the TCP connection, or of the capture. `by` is the peer that closed it first; None for the capture."""

    by: Peer | None
    is_reset: bool
    reason: str


Step: TypeAlias = SentStep | ProtocolHeaderSent | BytesSent | BytesLost | ConnectionRestored | ConnectionEnded
