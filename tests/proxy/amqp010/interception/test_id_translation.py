"""Ids in controls and commands, where our commands stand between."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.commands import (
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageAcquire,
    MessageReject,
    MessageRelease,
    QueueDeclare,
)
from amqproxy.amqp010.controls import (
    SessionCommandPoint,
    SessionCompleted,
    SessionConfirmed,
    SessionExpected,
    SessionGap,
    SessionKnownCompleted,
)
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp010.results import Acquired
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.proxy.amqp010.interception.command_insertions import CommandInsertions
from amqproxy.proxy.amqp010.interception.id_translation import HAS_IDS, translated


def ours(*places: int) -> CommandInsertions:
    insertions = CommandInsertions()
    for place in places:
        insertions.add(place)
    return insertions


def ids(*ranges: tuple[int, int]) -> SequenceSet:
    return SequenceSet(ranges)


@pytest.mark.parametrize(
    ("method", "result"),
    [
        (SessionCompleted(ids((0, 3))), SessionCompleted(ids((0, 2)))),
        (SessionCompleted(ids((1, 1))), None),
        (SessionCompleted(None), SessionCompleted(None)),
        (SessionConfirmed(ids((2, 2))), SessionConfirmed(ids((1, 1)))),
        (SessionExpected(ids((4, 4))), SessionExpected(ids((3, 3)))),
        (MessageAccept(ids((1, 1))), MessageAccept(ids())),
        (MessageReject(ids((2, 2)), 0), MessageReject(ids((1, 1)), 0)),
        (MessageRelease(ids((2, 3))), MessageRelease(ids((1, 2)))),
        (MessageAcquire(ids((2, 3))), MessageAcquire(ids((1, 2)))),
        (ExecutionResult(3), ExecutionResult(2)),
        (ExecutionException(404, 3), ExecutionException(404, 2)),
        (ExecutionException(404, 1), ExecutionException(404)),
        (SessionKnownCompleted(ids((0, 3))), SessionKnownCompleted(ids((0, 3)))),
        (QueueDeclare("q"), QueueDeclare("q")),
    ],
)
def test_of_the_partners_commands(method: Any, result: Any) -> None:
    assert translated(method, CommandInsertions(), ours(1), 0, 5) == result


@pytest.mark.parametrize(
    ("method", "result"),
    [
        (SessionKnownCompleted(ids((0, 1))), SessionKnownCompleted(ids((0, 2)))),
        (SessionKnownCompleted(None), SessionKnownCompleted(None)),
        (SessionGap(ids((1, 1))), SessionGap(ids((2, 2)))),
        (SessionCommandPoint(1, 0), SessionCommandPoint(2, 0)),
        (ExecutionResult(1, Acquired(ids((0, 1)))), ExecutionResult(1, Acquired(ids((0, 0), (2, 2))))),
        (SessionCompleted(ids((0, 3))), SessionCompleted(ids((0, 3)))),
    ],
)
def test_of_the_senders_own_commands(method: Any, result: Any) -> None:
    assert translated(method, ours(1), CommandInsertions(), 5, 0) == result


def test_ids_roll_over() -> None:
    insertions = ours((1 << 32) - 1)
    last = (1 << 32) - 2
    assert translated(SessionCompleted(ids((last, 1))), ours(), insertions, 0, 1 << 32) == SessionCompleted(
        ids((last, 0))
    )


def test_what_is_named_again_and_again_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    to_sources = CommandInsertions.to_sources
    monkeypatch.setattr(
        CommandInsertions, "to_sources", lambda own, each: (asked.append(each), to_sources(own, each))[1]
    )
    method = MessageAccept(ids(*[(0, 9)] * 100, (12, 12), (4, 3)))
    assert translated(method, ours(), ours(5), 0, 12) == MessageAccept(ids((0, 8), (11, 11)))
    assert asked == [range(10), range(12, 13)]


def test_all_that_have_ids_are_listed() -> None:
    names = {BY_INDEX[index].name for index in HAS_IDS}
    assert names == {
        *(
            f"session.{name}"
            for name in ("completed", "confirmed", "expected", "known-completed", "gap", "command-point")
        ),
        *(f"message.{name}" for name in ("accept", "reject", "release", "acquire")),
        *(f"execution.{name}" for name in ("result", "exception")),
    }
