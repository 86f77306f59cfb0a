"""Translation of the ids in controls and commands between the legs, once the proxy has inserted commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from amqproxy.amqp010.command_ids import CommandIds, id_of, position_of
from amqproxy.amqp010.commands import (
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageAcquire,
    MessageReject,
    MessageRelease,
)
from amqproxy.amqp010.controls import (
    SessionCommandPoint,
    SessionCompleted,
    SessionConfirmed,
    SessionExpected,
    SessionGap,
    SessionKnownCompleted,
)
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.amqp010.results import Acquired
from amqproxy.amqp010.sequence import MAX_RANGES, SequenceSet, add
from amqproxy.proxy.amqp010.interception.command_insertions import CommandInsertions

_OF_PARTNER: dict[type[Method], str] = {
    SessionCompleted: "commands",
    SessionConfirmed: "commands",
    SessionExpected: "commands",
    MessageAccept: "transfers",
    MessageReject: "transfers",
    MessageRelease: "transfers",
    MessageAcquire: "transfers",
}
"""Fields with ids of commands that the other peer has sent."""

_OF_SENDER: dict[type[Method], str] = {SessionKnownCompleted: "commands", SessionGap: "commands"}
"""Fields with ids of commands that the sender itself has sent."""

_SINGLE = (ExecutionResult, ExecutionException)

HAS_IDS = frozenset(
    cls.index for cls in BY_INDEX if cls in _OF_PARTNER or cls in _OF_SENDER or cls in (*_SINGLE, SessionCommandPoint)
)
"""Indexes of the controls and commands that refer to commands by id."""


def translated(
    method: Any, own: CommandInsertions, partners: CommandInsertions, near_own: int, near_partner: int
) -> Any:
    """Return the control or command to forward in place of `method`; `None` if nothing has to be forwarded.

    `own` and `partners` are the proxy's insertions among the commands of its sender and of the sender's partner;
    `near_own` and `near_partner` are positions close to their current ones, as the sender counts.
    """
    kind = type(method)
    if kind in _OF_PARTNER and partners:
        field = _OF_PARTNER[kind]
        found = getattr(method, field)
        if not found:
            return method
        sources = _mapped(found, near_partner, partners.to_sources)
        if not sources and not isinstance(method, (MessageAccept, MessageReject, MessageRelease, MessageAcquire)):
            return None  # it refers only to the proxy's commands, which the other peer does not know
        return replace(method, **{field: sources})
    if kind in _OF_SENDER and own:
        field = _OF_SENDER[kind]
        found = getattr(method, field)
        if not found:
            return method
        is_hull = isinstance(method, SessionKnownCompleted)
        return replace(method, **{field: _mapped(found, near_own, lambda ids: own.to_targets(ids, with_ours=is_hull))})
    if isinstance(method, SessionCommandPoint) and own:
        return replace(method, command_id=id_of(own.to_target(position_of(method.command_id or 0, near_own))))
    if isinstance(method, _SINGLE):
        return _translated_single(method, own, partners, near_own, near_partner)
    return method


def _translated_single(
    method: Any, own: CommandInsertions, partners: CommandInsertions, near_own: int, near_partner: int
) -> Any:
    if partners and method.command_id is not None:
        position = position_of(method.command_id, near_partner)
        sources = list(partners.to_sources(range(position, position + 1)))
        method = replace(method, command_id=id_of(sources[0].start) if sources else None)
    if own and isinstance(method, ExecutionResult) and isinstance(method.value, Acquired):
        transfers = method.value.transfers
        if transfers:
            mapped = _mapped(transfers, near_own, own.to_targets)
            method = replace(method, value=replace(method.value, transfers=mapped))
    return method


def _mapped(commands: SequenceSet, near: int, mapping: Callable[[range], Iterable[range]]) -> SequenceSet:
    """Return the translated set; ranges named twice by a peer are processed once, in ascending order."""
    named = []
    for first, last in commands.ranges:
        start = position_of(first, near)
        named.append(range(start, position_of(last, start) + 1))
    ranges: list[tuple[int, int]] = []
    for each in CommandIds.of(filter(None, named)):
        for ids in mapping(each):
            if ranges and add(ranges[-1][1], 1) == id_of(ids.start):  # only commands of the proxy lie between
                ranges[-1] = (ranges[-1][0], id_of(ids.stop - 1))
            elif len(ranges) == MAX_RANGES:
                return SequenceSet(ranges)
            else:
                ranges.append((id_of(ids.start), id_of(ids.stop - 1)))
    return SequenceSet(ranges)
