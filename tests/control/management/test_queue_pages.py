"""Pages of queues that the broker makes: order, selection, numbers, and turns."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.wire import Table
from amqproxy.control.management import queue_pages
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


def test_a_page_by_messages(serving: Serving) -> None:
    assert names(serving, QueuePage(sort="messages", count=3)) == ["+a", "/b", "/q"]
    assert names(serving, QueuePage(sort="messages", count=2, offset=3)) == ["/A", "/c"]
    assert names(serving, QueuePage(sort="messages_ready", reverse=True, count=3)) == ["/c", "/A", "/q"]
    assert names(serving, QueuePage(sort="name", count=3)) == ["/A", "+a", "/b"]


def test_the_numbers_come_first(serving: Serving) -> None:
    vhosts = serving.broker.vhosts.values()
    found: Any = [each for each in queue_page(vhosts, QueuePage(name="a", count=1, offset=7)) if each is not None]
    assert found == [{"total": 5, "filtered": 2}]


def test_a_page_by_names_has_those_that_exist(serving: Serving) -> None:
    wanted = [("/", "c"), ("none", "c"), ("/", "gone"), ("+", "a")]
    assert names(serving, QueuePage(names=wanted)) == ["/c", "+a"]
    assert names(serving, QueuePage(names=wanted, vhosts=["/"])) == ["/c"]


@pytest.fixture(scope="module")
def many() -> Serving:
    made = Serving()
    for number in range(8 * RUN):
        made.client.declare(f"queue{number * 7919 % (8 * RUN):05}")
    return made


@pytest.mark.parametrize("count", [None, 10])
def test_other_tasks_have_their_turn(many: Serving, count: int | None) -> None:
    found = list(queue_page(many.broker.vhosts.values(), QueuePage(sort="vhost", count=count)))
    assert found.count(None) >= 8
    listed = [each[1].name for each in found if isinstance(each, tuple)]
    assert listed == sorted(listed)
    assert len(listed) == (count or 8 * RUN + 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("offset", [0, 3 * RUN, 5 * RUN, 8 * RUN - 5])
def test_any_page_is_that_of_the_whole_list(many: Serving, offset: int, reverse: bool) -> None:
    whole = names(many, QueuePage(sort="name", reverse=reverse))
    page = QueuePage(sort="name", reverse=reverse, offset=offset, count=100)
    assert names(many, page) == whole[offset : offset + 100]


@pytest.mark.parametrize(
    "page",
    [QueuePage(name="nowhere"), QueuePage(sort="messages", count=1, offset=4 * RUN), QueuePage(count=9, offset=10**9)],
)
def test_no_turn_sorts_or_passes_over_more_than_a_run(many: Serving, page: QueuePage) -> None:
    """Keys are compared some times each in a run and once a level in the merge, never all of them in one turn."""
    compared = turns = longest = 0

    class Counted(str):
        def __lt__(self, other: str) -> bool:
            nonlocal compared
            compared += 1
            return str.__lt__(self, other)

    counting = {**queue_pages.SORTS, page.sort: lambda queue: Counted(queue.name)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_pages, "SORTS", counting)
        for each in queue_page(many.broker.vhosts.values(), page):
            if each is None:
                turns += 1
                longest = max(longest, compared)
                compared = 0
    assert turns >= 8
    assert max(longest, compared) <= 16 * RUN
