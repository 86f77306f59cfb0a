"""Values of a server script: each recorded client command with the server's answers, for replay to other clients."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from functools import cached_property
from typing import Any, Generic, TypeVar

from amqproxy.rules.matching.generated_names import shape_of

Key = tuple[Any, ...]
"""The name of a client's method and the names in it: commands with the same key refer to the same object."""

C = TypeVar("C", bound=Any)
"""A command of the protocol, with its content."""


def shape_of_key(key: Key) -> Key:
    """Return a key without the generated parts of its names."""
    return tuple(shape_of(each, certain=True) if isinstance(each, str) else each for each in key)


class AnswerKind(Enum):
    """The way in which an answer is sent."""

    COMMAND = auto()
    """Unchanged except for names and tags: a reply, a return, an unsolicited command of the server."""
    CONFIRM = auto()
    """A publisher confirm, or the completion of a command."""
    SETTLEMENT = auto()
    """A settlement of a client's message, with the id of the live one."""
    CHANNEL_CLOSE = auto()
    """The end of the channel or session, after the command if there is one."""
    CONNECTION_CLOSE = auto()
    HANG_UP = auto()
    """The server closed the socket."""


class Confirmed(Generic[C]):
    """Publishes that one confirm of the recording settled."""

    __slots__ = ("commands", "is_nack")

    def __init__(self, *, is_nack: bool) -> None:
        self.is_nack = is_nack
        self.commands: list[ScriptedCommand[C]] = []


class Answer(Generic[C]):
    """An answer of the server, `delay` seconds after a client command: a `command`, or a confirm of publishes.

    `order` numbers the server's actions; `recorded_id` is the id of the server's command, if it has one. For a message,
    `source` is the publish that it came from, if that was on the same connection, and `cause` the client command that
    it waits for: that publish, the commit of its transaction, or the command that requeued it.
    """

    __slots__ = ("cause", "command", "confirmed", "delay", "kind", "order", "recorded_id", "source")

    def __init__(
        self,
        kind: AnswerKind,
        order: int,
        delay: float,
        command: C | None = None,
        *,
        confirmed: Confirmed[C] | None = None,
        recorded_id: int | None = None,
        source: ScriptedCommand[C] | None = None,
        cause: ScriptedCommand[C] | None = None,
    ) -> None:
        self.kind = kind
        self.order = order
        self.delay = max(0.0, delay)
        self.command = command
        self.confirmed = confirmed
        self.recorded_id = recorded_id
        self.source = source
        self.cause = cause


class ScriptedCommand(Generic[C]):
    """A recorded client command with the server's answers. `number` is its place among all of the connection."""

    __slots__ = ("answers", "command", "deliveries", "key", "number", "ts_ns")

    def __init__(self, number: int, ts_ns: int, command: C, key: Key) -> None:
        self.number = number
        self.ts_ns = ts_ns
        self.command = command
        self.key = key
        self.answers: list[Answer[C]] = []
        self.deliveries: list[Answer[C]] = []
        """Deliveries to the consumer that it starts, each with its delay after the latest event that led to it."""


class ChannelScript(Generic[C]):
    """The client commands of one channel or session, in order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.commands: list[ScriptedCommand[C]] = []

    @cached_property
    def shapes(self) -> frozenset[Key]:
        """Keys of its commands, without the generated parts of names."""
        return frozenset(shape_of_key(each.key) for each in self.commands)


class ServerScript(Generic[C]):
    """One recorded connection of a `protocol`.

    `channels` are in the order in which they were opened; `connection` has the commands of the connection itself.
    `start` and `tune` are the server's proposals, in the protocol's types, `refused` the close that it sent before the
    connection was open; `opening` is the request to open it, with the server's unsolicited commands before the client's
    next one. `mechanism` is that of the login, `challenges` are the server's in it.
    """

    def __init__(self, protocol: str, stream: int, name_of_ends: str) -> None:
        self.protocol = protocol
        self.stream = stream
        self.name_of_ends = name_of_ends
        self.client_name = self.user = self.mechanism = ""
        self.challenges: list[bytes] = []
        self.virtual_host: str | None = None
        self.start: Any = None
        self.tune: Any = None
        self.refused: Any = None
        self.opening: ScriptedCommand[C] | None = None
        self.connection: ChannelScript[C] = ChannelScript(0)
        self.channels: list[ChannelScript[C]] = []

    @property
    def commands(self) -> Iterator[ScriptedCommand[C]]:
        """All client commands, by channel."""
        for channel in (self.connection, *self.channels):
            yield from channel.commands
