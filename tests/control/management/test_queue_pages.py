"""Pages of queues that the broker makes: order, selection, numbers, and turns."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.wire import Table
from amqproxy.control.management.queue_pages import RUN, queue_page
from amqproxy.control.request import QueuePage
from tests.control.served import Serving


def names(serving: Serving, page: QueuePage) -> list[str]:
    found = queue_page(serving.broker.vhosts.values(), page)
    return [f"{each[0].name}{each[1].name}" for each in found if isinstance(each, tuple)]


@pytest.fixture
def serving() -> Serving:
    made = Serving()
    other = made.broker.add_vhost("+")
    for name in ("b", "A", "c"):
        made.client.declare(name)
    other.declare_queue("a", None, durable=False, exclusive=False, auto_delete=False, arguments=Table(), now=0.0)
    for _ in range(2):
        made.client.publish("", "c")
    made.client.publish("", "A")
    return made


@pytest.mark.parametrize("count", [None, 100])
def test_queues_are_in_order_of_virtual_host_and_name(serving: Serving, count: int | None) -> None:
    assert names(serving, QueuePage(count=count)) == ["+a", "/A", "/b", "/c", "/q"]
    assert names(serving, QueuePage(count=count, reverse=True)) == ["/q", "/c", "/b", "/A", "+a"]
    assert names(serving, QueuePage(count=count, vhosts=["+", "none"])) == ["+a"]
    assert names(serving, QueuePage(count=count, name="a")) == ["+a", "/A"]
    assert names(serving, QueuePage(count=count, name="^[bc]$", regex=True)) == ["/b", "/c"]


def test_a_page_by_messages(serving: Serving) -> None:
    assert names(serving, QueuePage(sort="messages", count=3)) == ["+a", "/b", "/q"]
    assert names(serving, QueuePage(sort="messages", count=2, offset=3)) == ["/A", "/c"]
    assert names(serving, QueuePage(sort="messages_ready", reverse=True, count=3)) == ["/c", "/A", "/q"]
    assert names(serving, QueuePage(sort="name", count=3)) == ["/A", "+a", "/b"]


def test_the_numbers_come_first(serving: Serving) -> None:
    vhosts = serving.broker.vhosts.values()
    found: Any = [each for each in queue_page(vhosts, QueuePage(name="a", count=1, offset=7)) if each is not None]
    assert found == [{"total": 5, "filtered": 2}]
    with pytest.raises(ValueError, match="missing"):
        queue_page(vhosts, QueuePage(name="[", regex=True, count=1))


@pytest.mark.parametrize("count", [None, 10])
def test_other_tasks_have_their_turn(count: int | None) -> None:
    serving = Serving()
    for number in range(3 * RUN):
        serving.client.declare(f"queue{number:05}")
    found = list(queue_page(serving.broker.vhosts.values(), QueuePage(sort="vhost", count=count)))
    assert found.count(None) >= 3
    listed = [each[1].name for each in found if isinstance(each, tuple)]
    assert listed == sorted(listed)
    assert len(listed) == (count or 3 * RUN + 1)
