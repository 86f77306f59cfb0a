"""Which commands of a recording are played: those for which a filter holds, and what they cannot do without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.replay.steps import AssemblySent, CommandSent, ConnectionEnded, Step
from amqproxy.rules.context import Client
from amqproxy.rules.engine.assembly_filter import AssemblyFilter
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.amqp010_record import plain

AnyFilter: TypeAlias = CommandFilter | AssemblyFilter[None]

ALWAYS = ("connection.", "channel.", "session.")
"""Methods that begin so open and close what the others need: the filter is not asked."""


def selected(steps: Iterable[Step], chosen: Filter, streams: set[int] | None = None) -> Iterator[Step]:
    """The steps, with those commands of clients marked that the filter does not let by.

    With `streams`, only the steps of these connections.
    """
    filters: dict[int, AnyFilter] = {}
    for step in steps:
        if streams is not None and step.stream not in streams:
            continue
        yield _marked(step, chosen, filters)
        if isinstance(step, ConnectionEnded):
            filters.pop(step.stream, None)


def streams_of(steps: Iterable[Step], chosen: Filter) -> set[int]:
    """The connections that have a command which the filter lets by, besides what opens and closes them."""
    filters: dict[int, AnyFilter] = {}
    found: set[int] = set()
    for step in steps:
        marked = _marked(step, chosen, filters)
        if (
            isinstance(marked, CommandSent | AssemblySent)
            and marked.sender is CLIENT
            and marked.is_wanted
            and not is_plumbing(marked)
        ):
            found.add(step.stream)
        if isinstance(step, ConnectionEnded):
            filters.pop(step.stream, None)
    return found


def _marked(step: Step, chosen: Filter, filters: dict[int, AnyFilter]) -> Step:
    if not isinstance(step, CommandSent | AssemblySent):
        return step
    found = filters.get(step.stream)
    if found is None:
        client = Client.named(step.stream, step.connection)
        is_amqp010 = isinstance(step, AssemblySent)
        found = filters[step.stream] = (
            AssemblyFilter(chosen, client, plain) if is_amqp010 else CommandFilter(chosen, client)
        )
    if isinstance(step, AssemblySent):
        return _marked_assembly(step, found)
    assert isinstance(found, CommandFilter)
    if step.channel == 0:
        found.learn(step.sender, step.command.frames[0])
    if step.sender is not CLIENT or is_plumbing(step):
        return step
    if found.holds(step.sender, step.command, step.ts_ns / 1e9, ()):
        return step
    return msgspec.structs.replace(step, is_wanted=False)


def _marked_assembly(step: AssemblySent, found: AnyFilter) -> Step:
    """The same of 0-10."""
    assert isinstance(found, AssemblyFilter)
    if step.assembly.frames:
        found.learn(step.sender, step.assembly.frames[0])
    if step.sender is not CLIENT or is_plumbing(step) or found.holds(step.sender, step.assembly, step.ts_ns / 1e9):
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
