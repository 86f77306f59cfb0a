"""When a consumer can be sent one more message."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.broker.queues.consumer import UNLIMITED
from tests.broker.yard import Taker, Yard


def taker(prefetch: int = 0, room: int = 1, **options: Any) -> Taker:
    return Taker(Yard().queue(), prefetch, room, Yard(), **options)


@pytest.mark.parametrize(
    ("prefetch", "unacked", "room", "no_ack", "is_ready"),
    [
        (0, 5, 1, False, True),
        (0, 0, 0, False, False),
        (2, 1, 1, False, True),
        (2, 2, 1, False, False),
        (2, 2, 1, True, True),
        (2, 0, 0, True, False),
    ],
)
def test_is_ready(prefetch: int, unacked: int, room: int, no_ack: bool, is_ready: bool) -> None:
    consumer = taker(prefetch, room, no_ack=no_ack).consumer
    consumer.unacked = unacked
    assert consumer.is_ready() is is_ready


def test_no_prefetch_is_no_bound() -> None:
    assert taker().consumer.prefetch == UNLIMITED
    assert taker(5, no_ack=True).consumer.prefetch == UNLIMITED


def test_priority() -> None:
    assert taker().consumer.priority == 0
    assert taker(arguments={"x-priority": -3}).consumer.priority == -3
