"""History of lives that were forgotten."""

from __future__ import annotations

import random

import pytest

from amqproxy.linking.life_history import LifeHistory, LifeSearch, found
from amqproxy.linking.life_record import DeliveryRecord, LifeRecord, PublishRecord

SECOND = 1_000_000_000


def _life(number: int) -> LifeRecord:
    publish = PublishRecord(
        ts_ns=number * SECOND + number * 7919 % SECOND,
        stream=number % 50,
        connection=f"client-{number % 50}",
        user="shop",
        channel=1,
        number=number,
        virtual_host="/",
        exchange="orders",
        routing_key=f"orders.{number % 20}",
        size=100 + number % 1000,
        message_id=str(random.Random(number).getrandbits(128)),
        outcome="confirmed",
        seconds=random.Random(number).random() / 100,
    )
    delivery = DeliveryRecord(
        ts_ns=publish.ts_ns + 1_234_567,
        stream=number % 30,
        connection=f"consumer-{number % 30}",
        channel=1,
        delivery_tag=number,
        consumer_tag="ctag1.0",
        queue=f"q{number % 20}",
        sure=True,
        among=1,
        transit_seconds=random.Random(number).random() / 100,
        outcome="acked",
        seconds=random.Random(-number).random() / 100,
    )
    return LifeRecord(life=number, linked_by="message_id", publish=publish, deliveries=[delivery])


@pytest.fixture(scope="module")
def history() -> LifeHistory:
    history = LifeHistory(1 << 24)
    for number in range(5000):
        history.add(_life(number))
    return history


def _numbers(history: LifeHistory, **search: object) -> list[int]:
    return [each.life for each in found(history.snapshot(), LifeSearch(**search))]  # type: ignore[arg-type]


def test_lives_are_found_the_newest_first(history: LifeHistory) -> None:
    assert _numbers(history) == list(reversed(range(5000)))
    assert _numbers(history, message_id=_life(77).publish.message_id) == [77]  # type: ignore[union-attr]
    assert _numbers(history, queue="q3", start_ns=4900 * SECOND) == [4983, 4963, 4943, 4923, 4903]
    assert _numbers(history, exchange="orders", routing_key="orders.3", end_ns=40 * SECOND) == [23, 3]
    assert _numbers(history, exchange="other") == []
    assert next(iter(found(history.snapshot(), LifeSearch(message_id=_life(7).publish.message_id)))) == _life(7)  # type: ignore[union-attr]


def test_a_message_takes_few_bytes(history: LifeHistory) -> None:
    """With a random message_id: 64 MiB hold hours at a hundred messages a second."""
    assert history.memory_used / history.count < 150
    assert history.first_ns == _life(0).first_ns


def test_the_oldest_are_dropped() -> None:
    history = LifeHistory(100_000)
    for number in range(5000):
        history.add(_life(number))
    assert history.memory_used <= 100_000
    assert (history.count + history.dropped, len(_numbers(history))) == (5000, history.count)


def test_a_search_ends_when_it_is_late(history: LifeHistory) -> None:
    asked = iter([False, True])
    found_ones = list(found(history.snapshot(), LifeSearch(), lambda: next(asked)))
    assert 0 < len(found_ones) < 1000
