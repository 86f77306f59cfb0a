"""Which commands of a recording are played: those for which a filter holds, and what they cannot do without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.replay.steps import AssemblySent, CommandSent, ConnectionEnded, Step
from amqproxy.rules.context import Client
from amqproxy.rules.engine.assembly_filter import AssemblyFilter
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.amqp010.record import plain

ALWAYS = ("connection.", "channel.", "session.")
"""Methods that begin so open and close what the others need: the filter is not asked."""


class StepFilter:
    """A filter, asked of the commands of each connection, whichever protocol it speaks."""

    def __init__(self, chosen: Filter) -> None:
        self._chosen = chosen
        self._of_streams: dict[int, CommandFilter | AssemblyFilter[None]] = {}

    def learn(self, step: CommandSent | AssemblySent) -> None:
        """Know the client by what it says of itself: to be called with each step, before `holds`."""
        found = self._of(step)
        if isinstance(step, AssemblySent):
            if step.assembly.frames:
                found.learn(step.sender, step.assembly.frames[0])
        elif step.channel == 0:
            assert isinstance(found, CommandFilter)
            found.learn(step.sender, step.command.frames[0])

    def holds(self, step: CommandSent | AssemblySent) -> bool:
        """Does it hold for a command?"""
        found, time = self._of(step), step.ts_ns / 1e9
        if isinstance(step, AssemblySent):
            assert isinstance(found, AssemblyFilter)
            return found.holds(step.sender, step.assembly, time)
        assert isinstance(found, CommandFilter)
        return found.holds(step.sender, step.command, time, ())

    def _of(self, step: CommandSent | AssemblySent) -> CommandFilter | AssemblyFilter[None]:
        found = self._of_streams.get(step.stream)
        if found is None:
            client = Client.named(step.stream, step.connection)
            is_amqp010 = isinstance(step, AssemblySent)
            found = self._of_streams[step.stream] = (
                AssemblyFilter(self._chosen, client, plain) if is_amqp010 else CommandFilter(self._chosen, client)
            )
        return found

    def forget(self, stream: int) -> None:
        """A connection is over."""
        self._of_streams.pop(stream, None)


def selected(steps: Iterable[Step], chosen: Filter, streams: set[int] | None = None) -> Iterator[Step]:
    """The steps, with those commands of clients marked that the filter does not let by.

    With `streams`, only the steps of these connections.
    """
    asked = StepFilter(chosen)
    for step in steps:
        if streams is not None and step.stream not in streams:
            continue
        yield _marked(step, asked)
        if isinstance(step, ConnectionEnded):
            asked.forget(step.stream)


def streams_of(steps: Iterable[Step], chosen: Filter) -> set[int]:
    """The connections that have a command which the filter lets by, besides what opens and closes them."""
    asked = StepFilter(chosen)
    found: set[int] = set()
    for step in steps:
        marked = _marked(step, asked)
        if (
            isinstance(marked, CommandSent | AssemblySent)
            and marked.sender is CLIENT
            and marked.is_wanted
            and not is_plumbing(marked)
        ):
            found.add(step.stream)
        if isinstance(step, ConnectionEnded):
            asked.forget(step.stream)
    return found


def _marked(step: Step, asked: StepFilter) -> Step:
    if not isinstance(step, CommandSent | AssemblySent):
        return step
    asked.learn(step)
    if step.sender is not CLIENT or is_plumbing(step) or asked.holds(step):
        return step
    return msgspec.structs.replace(step, is_wanted=False)


def is_plumbing(step: CommandSent | AssemblySent) -> bool:
    """Does a command open or close its channel, or its connection?"""
    if isinstance(step, AssemblySent):
        return str(step.assembly.method.name).startswith(ALWAYS)
    try:
        return str(step.command.method.name).startswith(ALWAYS)
    except ProtocolError:
        return False
