"""Dead letters on their own: which queues take them, and what a lost one costs."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.wire import Table
from amqproxy.broker.queues.queue import Queue
from tests.broker.estate import NOW, Estate
from tests.broker.yard import message


@pytest.fixture
def estate() -> Estate:
    return Estate()


def test_a_letter_is_published_under_the_key_that_the_queue_gives_it(estate: Estate) -> None:
    target = estate.queue("target")
    queue = estate.queue(dead_letter_exchange="", dead_letter_routing_key="target")
    estate.vhost.dead_letter(queue, message(b"1"), "rejected", NOW)
    assert [letter.body for letter in target] == [b"1"]


def test_a_queue_without_a_dead_letter_exchange_drops_it(estate: Estate) -> None:
    queue = estate.queue()
    estate.vhost.dead_letter(queue, message(b"1"), "rejected", NOW)
    assert queue.message_count == 0


def test_a_letter_that_pushes_out_another_sends_that_one_after_it(estate: Estate) -> None:
    last = estate.queue("last")
    middle = estate.queue("middle", max_length=1, dead_letter_exchange="", dead_letter_routing_key="last")
    queue = estate.queue(dead_letter_exchange="", dead_letter_routing_key="middle")
    for body in (b"1", b"2"):
        estate.vhost.dead_letter(queue, message(body), "rejected", NOW)
    assert [[letter.body for letter in each] for each in (middle, last)] == [[b"2"], [b"1"]]


class FailingQueue(Queue):
    def publish(self, *arguments: Any) -> bool:
        raise ValueError("on purpose")


def test_a_queue_that_fails_loses_its_letter_and_no_other_queue_does(estate: Estate) -> None:
    fanout, queue = estate.exchange("x", "fanout"), estate.queue(dead_letter_exchange="x")
    failing, other = FailingQueue("failing", estate.vhost, arguments=Table()), estate.queue("other")
    for each in (failing, other):
        estate.bind(fanout, each)
    estate.vhost.dead_letter(queue, message(b"1"), "rejected", NOW)
    assert ([letter.body for letter in other], failing.message_count) == ([b"1"], 0)
    assert estate.vhost.events.failures == 1
