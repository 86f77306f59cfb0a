"""Confirms of publishes settle the deliveries that they were made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.methods import BasicAck
from amqproxy.moving.unsettled_messages import UnsettledMessages


def filled(*tags: int, max_bytes: int = 100) -> UnsettledMessages:
    found = UnsettledMessages(max_bytes)
    for tag in tags:
        found.add(tag, 10)
    return found


@pytest.mark.parametrize(
    ("number", "multiple", "ack"),
    [
        (1, False, BasicAck(11, multiple=True)),
        (2, False, BasicAck(12, multiple=False)),
        (2, True, BasicAck(12, multiple=True)),
        (3, True, BasicAck(13, multiple=True)),
        (9, True, BasicAck(13, multiple=True)),
    ],
)
def test_a_confirm_acknowledges(number: int, multiple: bool, ack: BasicAck) -> None:
    assert filled(11, 12, 13).confirm(number, multiple=multiple) == [ack]


def test_what_is_not_there_acknowledges_nothing() -> None:
    window = filled(11)
    assert window.confirm(2, multiple=False) == []
    assert window.confirm(0, multiple=True) == []
    assert window.confirm(1, multiple=False) != []
    assert window.confirm(1, multiple=True) == []


def test_bytes_bound_what_is_read() -> None:
    window = filled(1, 2, max_bytes=20)
    assert not window.has_room
    window.confirm(2, multiple=False)
    assert window.has_room


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=60))
def test_each_delivery_is_acknowledged_once_and_never_before_its_confirm(confirms: list[tuple[int, bool]]) -> None:
    window = filled(*range(101, 131))
    unacked = set(range(101, 131))
    confirmed: set[int] = set()
    for number, multiple in confirms:
        confirmed |= set(range(1, number + 1)) if multiple else {number}
        for ack in window.confirm(number, multiple=multiple):
            covered = {tag for tag in unacked if tag <= ack.delivery_tag} if ack.multiple else {ack.delivery_tag}
            assert ack.delivery_tag in unacked
            unacked -= covered
        assert unacked == {tag + 100 for tag in set(range(1, 31)) - confirmed}
        assert len(window) == len(unacked)
