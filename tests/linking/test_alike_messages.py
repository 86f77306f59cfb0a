"""Alike messages, and the next of them in a queue."""

from __future__ import annotations

import pytest

from amqproxy.linking import alike_messages
from amqproxy.linking.alike_messages import AlikeMessages, Found
from amqproxy.linking.message_life import Group, MessageLife, Place, Publish

GROUP = Group(("/", "q"), 0, "x", "k")


def _life(number: int) -> MessageLife:
    return MessageLife(number, 7, False, Publish(number, Place(1, 1, 1), number, "/", "x", "k", 5, None, None, None))


def _alike(count: int) -> AlikeMessages:
    alike = AlikeMessages(is_cut=False)
    for number in range(1, count + 1):
        alike.add(_life(number))
    return alike


def _number(found: Found) -> tuple[int | None, int]:
    return (None if found.life is None else found.life.number), found.among


def test_each_queue_delivers_them_in_their_order() -> None:
    alike = _alike(3)
    other = GROUP._replace(queue=("/", "other"))
    assert [_number(alike.first_delivery(GROUP)) for _ in range(4)] == [(1, 3), (2, 3), (3, 3), (None, 0)]
    assert _number(alike.first_delivery(other)) == (1, 3)


def test_when_all_are_delivered_the_next_is_sure_again() -> None:
    alike = _alike(2)
    for _ in range(2):
        alike.first_delivery(GROUP)
    alike.add(_life(3))
    assert alike.first_delivery(GROUP) == Found(alike.lives[2], 1, is_certain=True)


def test_one_that_has_reached_no_queue_is_none_of_them() -> None:
    alike = _alike(3)
    alike.first_delivery(GROUP)
    alike.exclude(alike.lives[1])
    assert _number(alike.first_delivery(GROUP)) == (3, 2)


def test_after_one_was_forgotten_none_is_certain() -> None:
    alike = _alike(3)
    alike.first_delivery(GROUP)
    alike.forget(alike.lives[0])
    assert not alike.first_delivery(GROUP).is_certain
    assert not alike.first_delivery(GROUP._replace(queue=("/", "other"))).is_certain


def test_a_committed_message_is_the_last() -> None:
    alike = _alike(2)
    alike.put_last(alike.lives[0])
    assert _number(alike.first_delivery(GROUP)) == (2, 2)


def test_they_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike_messages, "MAX_ALIKE", 10)
    monkeypatch.setattr(alike_messages, "MAX_PASSAGES", 3)
    alike = _alike(20)
    assert len(alike.lives) == 10
    for number in range(20):
        alike.first_delivery(GROUP._replace(queue=("/", number)))
    assert len(alike._passages) == 3
