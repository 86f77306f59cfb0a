"""The protocols whose commands filters select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.peer import Peer
from amqproxy.rules.amqp010.assembly_filter import AssemblyFilter
from amqproxy.rules.context import Client
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.engine.frame_filter import FrameFilter, MemoryRoom
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.message_recorder import CommandSelector


class ConnectionFilter(Protocol):
    """Filter for the frames of one connection, from its beginning; commands are passed whole."""

    def passing(
        self,
        sender: Peer,
        frames: Sequence[Any],
        command_ids: Sequence[int | None],
        time: float,
        tags: tuple[str, ...] = (),
        keeps: Callable[[Any], bool] | None = None,
    ) -> tuple[Sequence[Any], Sequence[int | None]]:
        """Return the frames that pass, from these and those held earlier, and the ids of their commands.

        There are no ids if the protocol has none. `time` and `tags` are as in `CommandContext`. With `keeps`, the
        frames for which it is true pass, and those that show how a session stands.
        """


class SelectorDialect(CommandSelector, Protocol):
    """Filter for the commands of one protocol, whose methods are of the classes `METHODS`."""

    METHODS: ClassVar[tuple[type, ...]]


class FilterDialect(NamedTuple):
    """Filters of one protocol, each made from a `Filter` and a `Client`."""

    frames: Callable[..., ConnectionFilter]
    """Also takes the `MemoryRoom` for incomplete commands, and the bytes of the largest body that the filter reads."""
    commands: Callable[[Filter, Client], SelectorDialect]


def _assembly_filter(
    chosen: Filter, client: Client, room: MemoryRoom | None = None, body_limit: int = 0
) -> AssemblyFilter[int | None]:
    """Return a filter that reads any body for which there is `room`."""
    return AssemblyFilter(chosen, client, room)


DIALECTS: dict[str, FilterDialect] = {
    AMQP091: FilterDialect(FrameFilter, CommandFilter),
    AMQP010: FilterDialect(_assembly_filter, AssemblyFilter[None]),
}
