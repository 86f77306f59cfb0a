"""What passed on a recorded connection: one value for each command, greeting, fault, and the end."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.transitions import Peer


class StepBase(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What all steps share.

    `index` numbers the steps of a capture in their order; `stream` and `connection` are as in `DecodedFrames`.
    """

    index: int
    ts_ns: int
    stream: int
    connection: str


class CommandSent(StepBase, frozen=True, kw_only=True, gc=False):
    """A whole command. Its `frames` are as they were recorded; a method may turn out to be malformed.

    `is_wanted` is whether it is to be played, where only some are. Where `command` is what a command of 0-10 is in
    0-9-1, `name` is that command's, and `session` the channel of its session.
    """

    sender: Peer
    command: Command
    is_wanted: bool = True
    name: str = ""
    session: int | None = None

    @property
    def channel(self) -> int:
        return self.command.channel if self.session is None else self.session


class AssemblySent(StepBase, frozen=True, kw_only=True, gc=False):
    """A whole control or command of 0-10, and the id of a command; None where it is not known."""

    sender: Peer
    assembly: Assembly
    command_id: int | None = None
    is_wanted: bool = True

    @property
    def channel(self) -> int:
        return self.assembly.channel


class ProtocolHeaderSent(StepBase, frozen=True, kw_only=True, gc=False):
    """A protocol header, or what was sent in its place: the first bytes of a direction."""

    sender: Peer
    protocol: str
    data: bytes


class BytesSent(StepBase, frozen=True, kw_only=True, gc=False):
    """Bytes that are no frame, all of which are known, and the reply `code` that a peer would answer with."""

    sender: Peer
    data: bytes
    reason: str
    code: int | None = None


class BytesLost(StepBase, frozen=True, kw_only=True, gc=False):
    """Bytes that are not in the capture, or were not kept: what `sender` did with them is not known.

    `protocol` is "0-10" where they are of that.
    """

    sender: Peer
    lost: int
    reason: str
    protocol: str = ""


class ConnectionEnded(StepBase, frozen=True, kw_only=True, gc=False):
    """The TCP connection is over, or the capture. `by` is who closed it first; None where the capture ends."""

    by: Peer | None
    is_reset: bool
    reason: str


Step: TypeAlias = CommandSent | AssemblySent | ProtocolHeaderSent | BytesSent | BytesLost | ConnectionEnded
