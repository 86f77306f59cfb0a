"""Which live delivery stands for which recorded one."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicDeliver, Method
from amqproxy.replay import deliveries
from amqproxy.replay.deliveries import DeliveryBoard, LiveDelivery


class NoConnection:
    def settle(self, delivery: LiveDelivery, method: Method) -> None:
        raise AssertionError


def delivery(tag: int, key: bytes, queue: str = "q") -> LiveDelivery:
    return LiveDelivery(NoConnection(), 1, tag, queue, key, Command(1, BasicDeliver("c", tag), body=key), is_open=True)


def test_the_first_of_the_same_content_comes_first() -> None:
    board = DeliveryBoard()
    one, other, same = delivery(1, b"a"), delivery(2, b"b"), delivery(3, b"a")
    for each in (one, other, same):
        board.add(each)
    assert board.take("q", b"b") is other
    assert board.take("q", b"a") is one
    assert board.take("other", b"a") is None
    assert list(board.unmatched()) == [same]
    assert board.take("q", b"a") is same
    assert board.take("q", b"a") is None


def test_whatever_came_from_a_queue_can_stand_in() -> None:
    board = DeliveryBoard()
    for tag, key in enumerate((b"a", b"b"), 1):
        board.add(delivery(tag, key))
    assert board.has_unmatched("q", 2)
    found = board.take_any("q")
    assert found is not None
    assert found.tag == 1
    assert not board.has_unmatched("q", 2)
    assert board.take_any("other") is None


def test_too_many_are_given_up_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_UNMATCHED", 3)
    board = DeliveryBoard()
    for tag in range(1, 6):
        board.add(delivery(tag, b"%d" % tag))
    assert [each.tag for each in board.given_up] == [1, 2]
    assert [each.tag for each in board.unmatched()] == [3, 4, 5]
    assert board.take("q", b"1") is None
