"""What can go wrong with single commands, which takes a proxy that knows them."""

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
"""What the connection or its channel can be closed for."""

DROPPABLE = CLOSABLE - {"connection.open", "channel.open", "channel.open-ok"} | {
    "connection.blocked",
    "connection.unblocked",
    HEARTBEAT_NAME,
}
"""What can be lost without the two peers' ideas of what is open growing apart."""


class CommandFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """Something that happens to one command; `methods` are those that it can happen to."""

    @property
    def methods(self) -> frozenset[str]:
        raise NotImplementedError

    @property
    def needs(self) -> Stage:
        return Stage.METHOD

    def happen(self, context: CommandContext) -> Verdict:
        raise NotImplementedError


class NackFault(CommandFault, frozen=True, tag="nack"):
    """A publish is lost, and nacked if the channel confirms; if not, the channel is closed."""

    methods = PUBLISH

    def happen(self, context: CommandContext) -> Verdict:
        return Verdict(command=None, answer=Answer.NACK)


class ReturnFault(CommandFault, frozen=True, tag="return"):
    """A publish comes back, as if no queue had wanted it."""

    code: ReplyCode = 312
    text: str = "NO_ROUTE"

    methods = PUBLISH

    def __post_init__(self) -> None:
        check_reply_text(self.text)

    def happen(self, context: CommandContext) -> Verdict:
        return Verdict(command=None, answer=Answer.RETURN, returned=(self.code, self.text))


class DropFault(CommandFault, frozen=True, tag="drop"):
    """A command is lost. `told` is the reply to the sender of a message: otherwise there is none."""

    told: Literal["nothing", "ack", "nack", "reject", "requeue"] = "nothing"

    methods = DROPPABLE

    def happen(self, context: CommandContext) -> Verdict:
        return Verdict(command=None, answer=Answer(self.told))


class DelayFault(CommandFault, frozen=True, tag="delay"):
    """A command comes `seconds` late, up to `jitter` more or less, and its channel with it."""

    seconds: Seconds
    jitter: Seconds = 0.0

    methods = frozenset(BY_NAME)

    def happen(self, context: CommandContext) -> Verdict:
        varied = self.jitter * (2 * context.random() - 1) if self.jitter else 0.0
        return Verdict(command=context.command, delay=max(0.0, self.seconds + varied))


class DuplicateFault(CommandFault, frozen=True, tag="duplicate"):
    """A message comes twice; of a delivery, the second has its redelivered bit set."""

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
    """A delivery is overtaken by so many that come behind it."""

    behind: Count = 1

    methods = DELIVER

    def happen(self, context: CommandContext) -> Verdict:
        return Verdict(command=context.command, behind=self.behind)


class CloseFault(CommandFault, frozen=True, tag="close"):
    """The command goes no further, and the client's channel or connection is closed with this code and text."""

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
    """A client with that capability receives connection.blocked, and unblocked after so many seconds."""

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
    """A consumer is cancelled behind a delivery of its own: at the broker, and at the client if that accepts it.

    What the broker had sent for it meanwhile goes back to its queue.
    """

    methods = DELIVER

    def happen(self, context: CommandContext) -> Verdict:
        cancel = Command(context.command.channel, BasicCancel(context.command.method.consumer_tag, True))
        notified = (CLIENT,) if context.client.announced("consumer_cancel_notify") else ()
        return Verdict(command=context.command, insertions=tuple([Insertion(to, cancel) for to in (SERVER, *notified)]))


class CorruptFault(CommandFault, frozen=True, tag="corrupt"):
    """The bits of `mask` are flipped in one byte of the method's frame: the one at `place`, or any."""

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
