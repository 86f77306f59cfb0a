"""Lives of messages, recent and forgotten."""

from __future__ import annotations

from itertools import chain, repeat

from amqproxy.amqp091.properties import Properties
from amqproxy.dashboard.message_lives import MessageLives, found_in_time
from amqproxy.linking.life_history import LifeSearch
from amqproxy.taps.note import NOTHING
from amqproxy.taps.trace.events import Settlement
from tests.linking.events import delivered, delivery_settled, opened, published

COUNT = 500


def _lives() -> MessageLives:
    lives = MessageLives(100_000)
    lives.take(1, [opened()], NOTHING)
    for number in range(1, COUNT + 1):
        properties = Properties(message_id=f"m-{number}")
        body = b"%d" % number
        lives.take(1, [published(number, body, number=number, properties=properties)], NOTHING)
        lives.take(1, [delivered(number, body, tag=number, properties=properties)], NOTHING)
        lives.take(1, [delivery_settled(number, Settlement.ACKED, number)], NOTHING)
    return lives


def _numbers(lives: MessageLives, search: LifeSearch, limit: int = 10_000) -> list[int]:
    found = found_in_time(lives.recent(search), lives.history.snapshot(), search, limit)
    return [each.life for each in found.lives]


def test_what_is_forgotten_is_in_the_history() -> None:
    lives = _lives()
    assert len(lives.linker.lives) < COUNT / 2
    assert _numbers(lives, LifeSearch()) == list(range(COUNT, 0, -1))
    assert _numbers(lives, LifeSearch(message_id="m-7")) == [7]
    assert _numbers(lives, LifeSearch(message_id=f"m-{COUNT}")) == [COUNT]
    assert _numbers(lives, LifeSearch(step_ns=9)) == [9]
    assert lives.first_ns == 1


def test_a_search_is_limited_in_number_and_in_time() -> None:
    lives = _lives()
    assert _numbers(lives, LifeSearch(), 3) == [COUNT, COUNT - 1, COUNT - 2]
    clock = chain([0.0], repeat(100.0))
    found = found_in_time([], lives.history.snapshot(), LifeSearch(), 1000, clock.__next__)
    assert found.is_cut
    assert found.lives == []
