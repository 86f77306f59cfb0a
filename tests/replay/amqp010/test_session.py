"""A session that is played: which live command stands for which recorded one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import pytest

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.replay.amqp010 import session as session_module
from amqproxy.replay.amqp010.session import PlayedSession, ids_of, remember, set_of
from amqproxy.replay.deliveries import LiveDelivery


def test_commands_are_numbered_anew() -> None:
    session = PlayedSession(1, b"s")
    assert [session.sent(70), session.sent(None), session.sent(72)] == [0, 1, 2]
    assert session.live_ids == {70: 0, 72: 2}
    session.completed.add(range(2))
    assert [session.is_completed(each) for each in (70, 71, 72)] == [True, True, False]


def test_what_is_completed_is_said_of_all() -> None:
    session = PlayedSession(1, b"s")
    assert session.complete([0, 2]).ranges == ((0, 0), (2, 2))
    assert session.complete([1]).ranges == ((0, 2),)


def test_deliveries_are_found_by_the_recorded_ids() -> None:
    session = PlayedSession(1, b"s")
    for number in (3, 4, 7):
        session.deliveries[number] = None
    assert session.deliveries_of(range(4, 6)) == [4]
    assert session.deliveries_of(range(2**32)) == [3, 4, 7]


def test_a_settlement_of_one_delivery_does_not_go_over_all_others() -> None:
    class Kept(OrderedDict[int, LiveDelivery | None]):
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("all of them were gone over")

    session = PlayedSession(1, b"s")
    session.deliveries = Kept()
    for number in range(100):
        session.deliveries[number] = None
        assert session.deliveries_of(range(number, number + 1)) == [number]
        assert session.newly_completed([range(number + 1)]) == [number]
    assert session.newly_completed([range(100)]) == []


def test_sets() -> None:
    assert ids_of(SequenceSet([(1, 3), (7, 7), (9, 2)])) == [range(1, 4), range(7, 8)]
    assert ids_of(None) == []
    many = CommandIds()
    for number in range(0, 40_000, 2):
        many.extend(number, number + 1)
    assert set_of(many).ranges[-1] == (39_998, 39_998)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MAX_KEPT", 3)
    kept: OrderedDict[int, str] = OrderedDict()
    for number in range(10):
        remember(kept, number, "x")
    assert list(kept) == [7, 8, 9]
