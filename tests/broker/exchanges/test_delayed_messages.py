"""Messages that wait for their time, before and after a restart."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from amqproxy.broker.exchanges.delayed_messages import AGAIN_AFTER, DelayedMessages
from amqproxy.broker.exchanges.direct import DirectExchange
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.message import Message
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.packing import DAMAGED, PackedMessage
from tests.broker.disk import Disk

X = DirectExchange("x", durable=True)
OWNER = LogOwner("exchange", "/", "x")


@pytest.fixture
def disk() -> Disk:
    return Disk(owner=OWNER)


def held(disk: Disk, *exchanges: Exchange) -> DelayedMessages:
    found = DelayedMessages("/")
    found.storage = QueueStorage(disk.journal, disk.fetch, disk.times)
    found.recover(exchanges)
    return found


def message(body: str) -> Message:
    return Message("x", "k", b"h", body.encode())


def bodies(found: DelayedMessages) -> list[tuple[float, str]]:
    return [(when, each.body.decode()) for when, _, each in found]


def paged(found: DelayedMessages) -> int:
    return sum(freed for _, freed in found.paging_out())


def test_the_next_is_first_and_of_one_time_the_older() -> None:
    sooner: list[float] = []
    found = DelayedMessages("/", sooner.append)
    assert found.next == math.inf
    for when, body in ((5, "a"), (3, "b"), (5, "c"), (4, "d")):
        found.hold(when, X, message(body))
    assert (found.next, sooner, len(found)) == (3, [5, 3], 4)
    assert [found.pop_due()[1].body for _ in range(4)] == [b"b", b"d", b"a", b"c"]
    assert (len(found), found.bytes_in_memory) == (0, 0)


def test_what_is_held_is_found_again(disk: Disk) -> None:
    found = held(disk)
    for when, body in ((5, "a"), (3, "b"), (5, "c"), (4, "d")):
        found.hold(when, X, message(body))
    found.pop_due()
    disk.again()
    found = held(disk, X)
    assert (bodies(found), found.bytes_in_memory) == ([(4, "d"), (5, "a"), (5, "c")], 0)
    found.hold(5, X, message("e"))
    assert [found.pop_due()[1].body for _ in range(4)] == [b"d", b"a", b"c", b"e"]
    disk.commit()
    assert disk.rows == {}


def test_what_is_on_the_disk_need_not_be_in_memory(disk: Disk) -> None:
    found, lasting, passing = held(disk), X, DirectExchange("y")
    found.hold(2, passing, message("p"))
    for number in range(1000):
        found.hold(number, lasting, message(str(number)))
    before = found.bytes_in_memory
    assert paged(found) == 0
    disk.commit()
    assert (paged(found), found.bytes_in_memory) == (before - 257, 257)
    taken = [found.pop_due()[1].body.decode() for _ in range(1001)]
    assert taken == ["0", "1", "p", *map(str, range(2, 1000))]
    assert len(disk.fetches) == 4
    assert found.bytes_in_memory == 0


def test_what_goes_on_while_it_is_paged_out_counts_once(disk: Disk) -> None:
    found = held(disk)
    y = DirectExchange("y")
    for number in range(200):
        found.hold(number, X if number % 2 else y, message(str(number)))
    disk.commit()
    paging_out = found.paging_out()
    next(paging_out)
    for _ in range(150):
        found.pop_due()
    found.drop(y)
    assert sum(1 for _ in paging_out) == 2
    assert found.bytes_in_memory == 0
    assert [found.pop_due()[1].body for _ in range(len(found))] == [b"%d" % number for number in range(151, 200, 2)]


def test_it_goes_with_its_exchange(disk: Disk) -> None:
    found = held(disk)
    found.hold(1, X, message("a"))
    found.hold(2, DirectExchange("y"), message("b"))
    assert len(found.drop(X)) == 1
    assert (bodies(found), found.bytes_in_memory) == ([(2, "b")], 257)
    assert len(found.drop(X)) == 0


def test_what_the_disk_has_lost_costs_itself(disk: Disk) -> None:
    found = held(disk)
    for when, body in ((1, "a"), (2, "b"), (3, "c")):
        found.hold(when, X, message(body))
    disk.again()
    one, two, _ = sorted(disk.rows)
    disk.rows[one] = disk.rows[one]._replace(message=DAMAGED)
    found = held(disk, X)
    del disk.rows[two]
    assert [found.pop_due()[1].body for _ in range(3)] == [b"", b"", b"c"]
    disk.commit()
    assert disk.rows == {}


def test_what_cannot_be_read_now_is_due_again_later(disk: Disk) -> None:
    def fails(*_: int) -> list[PackedMessage]:
        raise OSError("Input/output error")

    found = held(disk)
    found.hold(1, X, message("a"))
    disk.again()
    found = held(disk, X)
    assert found.storage is not None
    found.storage.fetch = fails
    with pytest.raises(OSError, match="Input"):
        found.pop_due(5.0)
    assert found.next == 5.0 + AGAIN_AFTER
    found.storage.fetch = disk.fetch
    assert found.pop_due(6.0)[1].body == b"a"


@pytest.mark.parametrize("due", [lambda number: -number, lambda number: number * 7919 % 1000])
def test_what_is_due_in_another_order_than_it_came_is_read_about_once(disk: Disk, due: Callable[[int], int]) -> None:
    found = held(disk)
    for number in range(1000):
        found.hold(due(number), X, message(str(number)))
    disk.again()
    found = held(disk, X)
    assert found.storage is not None
    read = []
    fetch = found.storage.fetch
    found.storage.fetch = lambda *wanted: read.append(fetch(*wanted)) or read[-1]
    taken = [int(found.pop_due()[1].body) for _ in range(1000)]
    assert taken == sorted(range(1000), key=due)
    assert sum(map(len, read)) < 2000
