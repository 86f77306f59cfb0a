"""0-9-1 as a dialect of replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amqproxy.amqp091.protocol_header import NAME
from amqproxy.replay.amqp091.player import Amqp091Player
from amqproxy.replay.amqp091.step_reader import Amqp091StepReader
from amqproxy.replay.broker_link import ReplayedStream
from amqproxy.replay.player import Player
from amqproxy.replay.steps import CommandSent
from amqproxy.rules.context import Client
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter


class Amqp091ReplayDialect:
    """The dialect of 0-9-1 replays."""

    name = NAME

    def step_reader(self, stream: int, connection: str, numbers: Iterator[int]) -> Amqp091StepReader:
        return Amqp091StepReader(stream, connection, numbers)

    def player(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[Player], None]) -> Amqp091Player:
        return Amqp091Player(replayed, timeout=timeout, wake=wake)

    def filter(self, chosen: Filter, client: Client) -> _Filter:
        return _Filter(chosen, client)


class _Filter:
    """A filter of the commands of one connection."""

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._filter = CommandFilter(chosen, client)

    def learn(self, step: CommandSent) -> None:
        if step.channel == 0:
            self._filter.learn(step.sender, step.command.frames[0])

    def holds(self, step: CommandSent) -> bool:
        return self._filter.holds(step.sender, step.command, step.ts_ns / 1e9, ())
