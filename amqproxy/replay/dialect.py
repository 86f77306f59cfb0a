"""Interface between a replay and the protocols that it plays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from amqproxy.replay.broker_link import ReplayedStream
from amqproxy.replay.player import Player
from amqproxy.replay.step_reader import StepReader
from amqproxy.rules.context import Client
from amqproxy.rules.matching.filters import Filter


class ConnectionFilter(Protocol):
    """A filter of the commands of one recorded connection."""

    def learn(self, step: Any) -> None:
        """Learn the client's identity from a step; called with each one, before `holds`."""

    def holds(self, step: Any) -> bool:
        """Return whether the filter holds for a command."""


class ReplayDialect(Protocol):
    """One protocol that replays play.

    To add a protocol: derive a `SentStep`, which is one of its commands; a `StepReader`, which makes steps of decoded
    frames; and a `Player`, which plays them, compares what the broker sends, and has the live connection. Put them in a
    folder with a dialect, and list that in `dialects`.
    """

    @property
    def name(self) -> str:
        """The name of the protocol, as decoded captures have it."""

    def step_reader(self, stream: int, connection: str, numbers: Iterator[int]) -> StepReader:
        """Begin to read the steps of a recorded connection, numbered by `numbers`."""

    def player(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[Player], None]) -> Player:
        """Begin to play a recorded connection, waiting up to `timeout` seconds for each answer."""

    def filter(self, chosen: Filter, client: Client) -> ConnectionFilter:
        """Begin to filter the commands of a recorded connection."""
