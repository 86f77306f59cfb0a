"""What waits on the disk: its order, what is read when, and what is saved by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.broker.queues.paged_messages import MESSAGE_COST, READ_AHEAD, PagedMessages
from amqproxy.broker.storage.packing import DAMAGED, PackedMessage
from tests.broker.disk import Memory
from tests.broker.yard import message

NEVER = float("inf")


def row(position: int, expires_at: float = NEVER) -> PackedMessage:
    return PackedMessage(position, expires_at, 0, message(b"%04d" % position))


class PlayedLog:
    """Plays the message log of a queue: what it has, and how much was asked for at a time."""

    def __init__(self, positions: Iterable[int] = ()) -> None:
        self.rows = [row(position) for position in positions]
        self.limits: list[int] = []

    def fetch(self, log_number: int, position: int, limit: int) -> Sequence[PackedMessage]:
        assert log_number == 7
        self.limits.append(limit)
        return [each for each in self.rows if each.position >= position][:limit]

    def put(self, paged: PagedMessages, position: int) -> None:
        self.rows.append(row(position))
        paged.put_kept(self.rows[-1])


def taken(paged: PagedMessages) -> list[tuple[int, bool]]:
    found = []
    while (one := paged.pop()) is not None:
        found.append((one[0].position, one[1]))
    return found


def cost(messages: int) -> int:
    return messages * (4 + MESSAGE_COST)


def test_what_a_message_log_has_from_before_is_read_more_and_more_at_once() -> None:
    message_log = PlayedLog(range(3000))
    paged = PagedMessages(7, message_log.fetch, messages=3000, body_bytes=12_000)
    assert (len(paged), paged.bytes_paged_out) == (3000, cost(3000))
    assert taken(paged) == [(position, True) for position in range(3000)]
    assert message_log.limits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, READ_AHEAD, 953]
    assert (len(paged), paged.bytes_paged_out) == (0, 0)


def test_page_files_and_message_log_in_one_order() -> None:
    message_log, page_store = PlayedLog(), Memory()
    paged = PagedMessages(7, message_log.fetch)
    paged.lead(row(1), is_kept=True)
    paged.lead(row(2), is_kept=False)
    assert paged.bytes_paged_out == 0  # these are in memory
    message_log.put(paged, 3)
    paged.put_paged_out(page_store, [row(4), row(6)])
    message_log.put(paged, 5)
    paged.put_paged_out(page_store, [row(7)])
    assert (len(paged), paged.bytes_paged_out) == (7, cost(5))
    assert [each.body for each in paged] == [b"%04d" % position for position in range(1, 8)]
    assert (len(paged), paged.bytes_paged_out) == (7, cost(5))  # looking takes nothing away
    assert paged.first.position == 1
    kept = {1, 3, 5}
    assert taken(paged) == [(position, position in kept) for position in range(1, 8)]
    assert (page_store.rows, paged.bytes_paged_out) == ({}, 0)


def test_a_block_is_dropped_once_it_is_read() -> None:
    page_store = Memory()
    paged = PagedMessages()
    paged.put_paged_out(page_store, [row(1), row(2)])
    paged.put_paged_out(page_store, [row(3)])
    assert paged.bytes_paged_out == cost(3)
    assert paged.first.position == 1
    assert (len(page_store.rows), paged.bytes_paged_out, len(paged)) == (1, cost(1), 3)


def test_when_the_time_of_the_first_is_over() -> None:
    paged = PagedMessages()
    paged.put_paged_out(Memory(), [row(1, 12.5), row(2, 5.0)])
    assert paged.expires_at == 12.5
    paged.pop()
    assert paged.expires_at == 5.0


def test_a_full_page_store_takes_nothing() -> None:
    page_store = Memory()
    page_store.is_full = True
    paged = PagedMessages()
    with pytest.raises(OSError, match="full"):
        paged.put_paged_out(page_store, [row(1)])
    assert (len(paged), paged.bytes_paged_out, [*paged]) == (0, 0, [])


def test_what_cannot_be_read_any_more_is_passed_over_and_counted() -> None:
    """In the message log by its position, and in the page files a block at a time."""
    lost: list[tuple[int, int, int | None]] = []
    message_log, page_store = PlayedLog(), Memory()
    paged = PagedMessages(7, message_log.fetch, lost=lambda *found: lost.append(found))
    for position in (1, 2, 3):
        message_log.put(paged, position)
    message_log.rows[1] = PackedMessage(2, NEVER, 0, DAMAGED, 0, 4)
    paged.put_paged_out(page_store, [row(4), row(5)])
    paged.put_paged_out(page_store, [row(6)])
    page_store.unreadable = {4}
    assert len(paged) == 6
    assert [each.body for each in paged] == [b"0001", b"0003", b"0006"]
    assert taken(paged) == [(1, True), (3, True), (6, False)]
    assert sorted(lost, key=str) == [(1, 4, 2), (2, 8, None)]
    assert (len(paged), paged.bytes_paged_out, page_store.rows) == (0, 0, {})


def test_a_message_log_that_has_fewer_than_it_announced() -> None:
    lost: list[tuple[int, int, int | None]] = []
    message_log, page_store = PlayedLog(), Memory()
    paged = PagedMessages(7, message_log.fetch, 5, 50, lambda *found: lost.append(found))
    message_log.rows = [row(2)]
    paged.put_paged_out(page_store, [row(9)])
    assert taken(paged) == [(2, True), (9, False)]
    assert lost == [(4, 0, None)]
    assert (paged.pop(), paged.first, paged.expires_at, len(paged), paged.bytes_paged_out) == (
        None,
        None,
        NEVER,
        0,
        0,
    )


def test_cleared() -> None:
    message_log, page_store = PlayedLog(), Memory()
    paged = PagedMessages(7, message_log.fetch)
    paged.lead(row(1), is_kept=True)
    message_log.put(paged, 2)
    paged.put_paged_out(page_store, [row(3)])
    paged.clear()
    assert (len(paged), paged.bytes_paged_out, [*paged], page_store.rows) == (0, 0, [], {})
    message_log.rows.clear()
    message_log.put(paged, 4)
    assert taken(paged) == [(4, True)]


@given(st.lists(st.tuples(st.sampled_from(["kept", "paged_out", "take"]), st.integers(1, 5)), max_size=40))
def test_first_in_first_out_wherever_it_is(steps: list[tuple[str, int]]) -> None:
    message_log, page_store = PlayedLog(), Memory()
    paged = PagedMessages(7, message_log.fetch)
    expected: list[tuple[int, bool]] = []
    position = 0
    for what, count in steps:
        if what == "take":
            for _ in range(min(count, len(expected))):
                stored, is_kept = paged.pop()
                assert (stored.position, is_kept) == expected.pop(0)
            continue
        positions = range(position + 1, position + 1 + count)
        position += count
        expected += [(each, what == "kept") for each in positions]
        if what == "kept":
            for each in positions:
                message_log.put(paged, each)
        else:
            paged.put_paged_out(page_store, [row(each) for each in positions])
        assert len(paged) == len(expected)
        assert [int(each.body) for each in paged] == [each for each, _ in expected]
    assert taken(paged) == expected
    assert (paged.bytes_paged_out, page_store.rows) == (0, {})
