"""What waits comes out in its order, whatever was taken out and put back."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.broker.queues.backlog import NEVER, Backlog
from amqproxy.broker.queues.consumer import QueueEntry
from tests.broker.disk import Memory
from tests.broker.yard import Yard, message


def bodies(backlog: Backlog) -> list[str]:
    return [each.body.decode() for each in backlog]


def filled(count: int, expiries: dict[int, float] | None = None) -> Backlog:
    backlog = Backlog()
    for number in range(count):
        backlog.add(message(str(number)), (expiries or {}).get(number, NEVER))
    return backlog


def test_first_in_first_out() -> None:
    backlog = filled(3)
    queue = Yard().queue()
    assert [backlog.take(queue).message.body for _ in range(3)] == [b"0", b"1", b"2"]
    assert len(backlog) == 0


def test_a_peek_takes_nothing_and_is_bounded() -> None:
    backlog, queue = filled(5, {3: 7.0}), Yard().queue()
    backlog.put_back(backlog.take(queue))
    found = backlog.peek(CommandIds(), 10, 1 << 20, 100)
    assert [(position, each.body, when) for position, each, when in found] == [
        (1, b"0", NEVER),
        (2, b"1", NEVER),
        (3, b"2", NEVER),
        (4, b"3", 7.0),
        (5, b"4", NEVER),
    ]
    assert len(backlog.peek(CommandIds(), 2, 1 << 20, 100)) == 2
    assert len(backlog.peek(CommandIds(), 10, 1, 100)) == 1
    assert len(backlog) == 5


@pytest.mark.parametrize("is_paged", [False, True])
def test_a_peek_passes_over_what_was_seen_and_what_is_far(is_paged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    backlog, queue = filled(9), Yard().queue()
    for _ in range(3):
        backlog.take(queue)
    taken = [backlog.take(queue) for _ in range(2)]
    for entry in taken:
        backlog.put_back(entry)
    if is_paged:
        monkeypatch.setattr("amqproxy.broker.queues.backlog.HEAD_MESSAGES", 1)
        monkeypatch.setattr("amqproxy.broker.queues.backlog.HEAD_BYTES", 1)
        assert backlog.page_out(Memory(), 1 << 20)
    seen = CommandIds.of([range(1, 5), range(7, 8)])

    def positions(most: int = 9, depth: int = 100) -> list[int]:
        return [position for position, _, _ in backlog.peek(seen, most, 1 << 20, depth)]

    assert positions() == [5, 6, 8, 9]
    assert positions(most=2) == [5, 6]
    assert positions(depth=4) == ([5, 6, 8, 9] if is_paged else [5, 6])
    seen.add(range(5, 10))
    assert positions() == []


def test_what_is_put_back_is_where_it_was() -> None:
    backlog, queue = filled(5), Yard().queue()
    zero, one, two = (backlog.take(queue) for _ in range(3))
    backlog.put_back(two)
    backlog.put_back(zero)
    assert bodies(backlog) == ["0", "2", "3", "4"]
    assert backlog.take(queue) is zero
    backlog.put_back(one)
    assert bodies(backlog) == ["1", "2", "3", "4"]


def test_what_never_waited_has_its_place_too() -> None:
    backlog, queue = Backlog(), Yard().queue()
    direct = backlog.entry(queue, message("direct"), NEVER)
    backlog.add(message("waits"), NEVER)
    backlog.put_back(direct)
    assert bodies(backlog) == ["direct", "waits"]


def test_time_of_the_first() -> None:
    backlog, queue = filled(4, {1: 50.0, 3: 70.0}), Yard().queue()
    times, entries = [], []
    while backlog:
        times.append(backlog.expires_at)
        entries.append(backlog.take(queue))
    assert times == [NEVER, 50.0, NEVER, 70.0]
    backlog.put_back(entries[1])
    assert backlog.expires_at == 50.0
    backlog.clear()
    assert (backlog.expires_at, len(backlog)) == (NEVER, 0)


def test_nothing_is_left_by_clear() -> None:
    backlog, queue = filled(3), Yard().queue()
    first = backlog.take(queue)
    backlog.clear()
    backlog.add(message("new"), NEVER)
    backlog.put_back(first)
    assert bodies(backlog) == ["0", "new"]


steps = st.lists(st.one_of(st.just("add"), st.just("take"), st.integers(0, 9)), max_size=60)


@given(steps)
def test_like_a_sorted_list(steps: list[str | int]) -> None:
    """A number puts back one of those that are out."""
    backlog, queue = Backlog(), Yard().queue()
    waiting: list[int] = []
    out: list[QueueEntry] = []
    count = 0
    for step in steps:
        if step == "add":
            backlog.add(message(str(count)), float(count))
            waiting.append(count)
            count += 1
        elif step == "take":
            if waiting:
                entry = backlog.take(queue)
                assert entry.message.body == str(waiting.pop(0)).encode()
                out.append(entry)
        elif out:
            entry = out.pop(int(step) % len(out))
            backlog.put_back(entry)
            waiting = sorted([*waiting, int(entry.message.body)])
        assert bodies(backlog) == [str(each) for each in waiting]
        assert len(backlog) == len(waiting)
        assert backlog.expires_at == (waiting[0] if waiting else NEVER)


def test_bytes_that_a_waiting_message_costs() -> None:
    """Counted without the body: at most 300, timed or not."""
    count = 5_000
    for expires_at in (NEVER, 77.7):
        backlog = Backlog()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(count):
            backlog.add(message(bytes(100), delivery_mode=2), expires_at + number)
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (after - before) / count - 100 < 300
