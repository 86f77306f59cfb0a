"""0-10 as a dialect of replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amqproxy.amqp010.protocol_header import NAME
from amqproxy.replay.amqp010.assembly_sent import AssemblySent
from amqproxy.replay.amqp010.player import Amqp010Player
from amqproxy.replay.amqp010.step_reader import Amqp010StepReader
from amqproxy.replay.broker_link import ReplayedStream
from amqproxy.replay.player import Player
from amqproxy.rules.context import Client
from amqproxy.rules.engine.assembly_filter import AssemblyFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.amqp010.record import plain


class Amqp010ReplayDialect:
    """The dialect of 0-10 replays."""

    name = NAME

    def step_reader(self, stream: int, connection: str, numbers: Iterator[int]) -> Amqp010StepReader:
        return Amqp010StepReader(stream, connection, numbers)

    def player(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[Player], None]) -> Amqp010Player:
        return Amqp010Player(replayed, timeout=timeout, wake=wake)

    def filter(self, chosen: Filter, client: Client) -> _Filter:
        return _Filter(chosen, client)


class _Filter:
    """A filter of the commands of one connection."""

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._filter: AssemblyFilter[None] = AssemblyFilter(chosen, client, plain)

    def learn(self, step: AssemblySent) -> None:
        if step.assembly.frames:
            self._filter.learn(step.sender, step.assembly.frames[0])

    def holds(self, step: AssemblySent) -> bool:
        return self._filter.holds(step.sender, step.assembly, step.ts_ns / 1e9)
