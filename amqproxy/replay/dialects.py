"""The protocols that replays play."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.capture.decoded import Decoded
from amqproxy.peer import Peer
from amqproxy.replay.amqp010.player import Amqp010Player
from amqproxy.replay.amqp010.step_reader import Amqp010StepReader
from amqproxy.replay.amqp091.player import Amqp091Player
from amqproxy.replay.amqp091.step_reader import Amqp091StepReader
from amqproxy.replay.player import Player
from amqproxy.replay.step_reader import StepReader
from amqproxy.replay.steps import Step
from amqproxy.rules.amqp010.assembly_filter import AssemblyFilter
from amqproxy.rules.context import Client
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter


class ConnectionFilter(Protocol):
    """A filter of the commands of one recorded connection."""

    def learn(self, sender: Peer, frame: Any) -> None:
        """Learn the client's identity from the first frame of a command; called with each one, before `holds`."""

    def holds(self, sender: Peer, command: Any, time: float) -> bool:
        """Return whether the filter holds for a command."""


class ReplayDialect(NamedTuple):
    """One protocol that replays play.

    To add a protocol: derive a `SentStep`, which is one of its commands; a `StepReader`, which makes steps of decoded
    frames; and a `Player`, which plays them, compares what the broker sends, and has the live connection. Put them in a
    folder, and list them here.
    """

    name: str
    """Name of the protocol, as decoded captures have it."""
    step_reader: Callable[[int, str, Iterator[int]], StepReader]
    """Begins to read the steps of a connection, by its number and name, and the numbers for its steps."""
    player: Callable[..., Player]
    """Begins to play a recorded connection: a `Player`."""
    filter: Callable[[Filter, Client], ConnectionFilter]
    """Begins to filter the commands of a recorded connection."""


_USUAL = ReplayDialect(NAME, Amqp091StepReader, Amqp091Player, CommandFilter)

DIALECTS: dict[str, ReplayDialect] = {
    each.name: each for each in (_USUAL, ReplayDialect(AMQP010, Amqp010StepReader, Amqp010Player, AssemblyFilter[None]))
}


def dialect_of(first: Decoded | Step) -> ReplayDialect:
    """Return the dialect of a connection by its first part; the usual one if this does not name a protocol."""
    return DIALECTS.get(getattr(first, "protocol", ""), _USUAL)
