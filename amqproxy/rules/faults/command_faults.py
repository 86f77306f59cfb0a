"""Faults of single commands, which a proxy can inject only if it decodes them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope, reply_text
from amqproxy.amqp091.frame import HEARTBEAT, OVERHEAD
from amqproxy.amqp091.methods import BY_NAME, BasicCancel, BasicDeliver, ConnectionBlocked, ConnectionUnblocked
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import CommandContext
from amqproxy.rules.faults.stream_faults import Count, Seconds
from amqproxy.rules.matching.match import HEARTBEAT as HEARTBEAT_NAME
from amqproxy.rules.short_strings import check_reply_text, check_short_string
from amqproxy.rules.verdict import Answer, Close, Insertion, Stage, Verdict

ReplyCode = Annotated[int, msgspec.Meta(ge=200, le=999)]

PUBLISH = frozenset({"basic.publish"})
DELIVER = frozenset({"basic.deliver"})

STARTED = frozenset(name for name in BY_NAME if not name.startswith("connection.") or name == "connection.open")
"""All methods from connection.open on, except those about the connection itself."""

CLOSABLE = STARTED - {"channel.close", "channel.close-ok"}
"""Methods for which a connection or channel can be closed."""

DROPPABLE = CLOSABLE - {"connection.open", "channel.open", "channel.open-ok"} | {
    "connection.blocked",
    "connection.unblocked",
    HEARTBEAT_NAME,
}
"""Commands that can be lost while both peers still agree on which channels and connections are open."""


class CommandFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """A fault of one command; `methods` are those that it can apply to."""

    @property
    def methods(self) -> frozenset[str]:
        raise NotImplementedError

    @property
    def needs(self) -> Stage:
        return Stage.METHOD

    def happen(self, context: CommandContext) -> Verdict:
        raise NotImplementedError


class NackFault(CommandFault, frozen=True, tag="nack"):
    """Lose a publish, and nack it if the channel confirms; otherwise close the channel."""

    methods = PUBLISH

    def happen(self, context: CommandContext) -> Verdict:
        return Verdict(command=None, answer=Answer.NACK)


class ReturnFault(CommandFault, frozen=True, tag="return"):
    """Return a publish as unroutable."""

    code: ReplyCode = 312
    text: str = "NO_ROUTE"

    methods = PUBLISH

    def __post_init__(self) -> None:
        check_reply_text(self.text)

    def happen(self, context: CommandContext) -> Verdict:
        return Verdict(command=None, answer=Answer.RETURN, returned=(self.code, self.text))


class DropFault(CommandFault, frozen=True, tag="drop"):
    """Lose a command; `told` is the reply to the sender of a message, by default none."""

    told: Literal["nothing", "ack", "nack", "reject", "requeue"] = "nothing"

    methods = DROPPABLE

    def happen(self, context: CommandContext) -> Verdict:
        return Verdict(command=None, answer=Answer(self.told))


class DelayFault(CommandFault, frozen=True, tag="delay"):
    """Delay a command and its channel by `seconds`, varied by up to `jitter`."""

    seconds: Seconds
    jitter: Seconds = 0.0

    methods = frozenset(BY_NAME)

    def happen(self, context: CommandContext) -> Verdict:
        varied = self.jitter * (2 * context.random() - 1) if self.jitter else 0.0
        return Verdict(command=context.command, delay=max(0.0, self.seconds + varied))


class DuplicateFault(CommandFault, frozen=True, tag="duplicate"):
    """Send a message twice; the second copy of a delivery has its redelivered bit set."""

    methods = PUBLISH | DELIVER

    @property
    def needs(self) -> Stage:
        return Stage.BODY

    def happen(self, context: CommandContext) -> Verdict:
        command = context.command
        method = command.method
        if isinstance(method, BasicDeliver):
            method = replace(method, redelivered=True)
        copy = Command(command.channel, method, command.properties, command.body)
        return Verdict(command=command, insertions=(Insertion(context.sender.other, copy),))


class ReorderFault(CommandFault, frozen=True, tag="reorder"):
    """Move a delivery behind the next `behind` deliveries."""

    behind: Count = 1

    methods = DELIVER

    def happen(self, context: CommandContext) -> Verdict:
        return Verdict(command=context.command, behind=self.behind)


class CloseFault(CommandFault, frozen=True, tag="close"):
    """Drop the command, and close the client's channel or connection with this code and text."""

    code: ReplyCode
    scope: Scope = Scope.CHANNEL
    text: str = "fault injected by the proxy"

    methods = CLOSABLE

    def __post_init__(self) -> None:
        check_reply_text(self.text, self.code)

    def happen(self, context: CommandContext) -> Verdict:
        scope = self.scope if context.command.channel else Scope.CONNECTION
        return Verdict(command=None, close=Close(scope, self.code, reply_text(self.code, self.text), CLIENT))


class BlockFault(CommandFault, frozen=True, tag="block"):
    """Send connection.blocked to a client with that capability, and connection.unblocked after `seconds`."""

    seconds: Seconds
    reason: str = "fault injected by the proxy"

    methods = CLOSABLE - {"connection.open"}

    def __post_init__(self) -> None:
        check_short_string(self.reason, "reason")

    def happen(self, context: CommandContext) -> Verdict:
        if not context.client.announced("connection.blocked"):
            return Verdict(command=context.command)
        insertions = (
            Insertion(CLIENT, Command(0, ConnectionBlocked(self.reason)), is_ahead=True),
            Insertion(CLIENT, Command(0, ConnectionUnblocked()), after=self.seconds),
        )
        return Verdict(command=context.command, insertions=insertions)


class CancelFault(CommandFault, frozen=True, tag="cancel"):
    """Cancel a consumer after one of its deliveries: at the broker, and at the client if that supports it.

    Further deliveries that the broker has already sent to it are requeued.
    """

    methods = DELIVER

    def happen(self, context: CommandContext) -> Verdict:
        cancel = Command(context.command.channel, BasicCancel(context.command.method.consumer_tag, True))
        notified = (CLIENT,) if context.client.announced("consumer_cancel_notify") else ()
        return Verdict(command=context.command, insertions=tuple([Insertion(to, cancel) for to in (SERVER, *notified)]))


class CorruptFault(CommandFault, frozen=True, tag="corrupt"):
    """Flip the bits of `mask` in one byte of the method frame: the byte at `place`, or a random one."""

    place: Annotated[int, msgspec.Meta(ge=0)] | None = None
    mask: Annotated[int, msgspec.Meta(ge=1, le=255)] = 0xFF

    methods = frozenset(BY_NAME) | {HEARTBEAT_NAME}

    def happen(self, context: CommandContext) -> Verdict:
        frames = context.command.frames
        is_heartbeat = bool(frames) and frames[0].kind == HEARTBEAT
        size = OVERHEAD + (0 if is_heartbeat else len(context.command.method.encode()))
        place = int(context.random() * size) if self.place is None else min(self.place, size - 1)
        return Verdict(command=context.command, damage=((place, self.mask),))


AnyCommandFault = (
    NackFault
    | ReturnFault
    | DropFault
    | DelayFault
    | DuplicateFault
    | ReorderFault
    | CloseFault
    | BlockFault
    | CancelFault
    | CorruptFault
)
