"""A log of which only the end is in memory."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.broker.message import Message
from amqproxy.broker.queues import stream_log
from amqproxy.broker.queues.stream_log import StreamLog
from tests.broker.disk import Disk, Memory
from tests.example_count import example_count

SMALL = {"RUN_MESSAGES": 3, "RUN_BYTES": 1000, "TAIL_BYTES": 2000, "RUNS_READ": 2}


def message(number: int, size: int = 0) -> Message:
    return Message("", "s", b"h", b"%d" % number + bytes(size))


def filled(log: StreamLog, count: int) -> StreamLog:
    for number in range(count):
        log.append(message(number), float(number // 2))
    return log


def numbers(log: StreamLog) -> list[int]:
    return [int(each.body) for each in log]


def again(disk: Disk) -> StreamLog:
    return StreamLog(disk.again(), disk.fetch)


def test_what_is_appended_is_at_its_offset() -> None:
    log = filled(StreamLog(), 10)
    assert (log.first, log.next, numbers(log)) == (0, 10, list(range(10)))
    assert [log.time(offset) for offset in range(10)] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert log.run(7).messages[7 - log.run(7).first].body == b"7"


def test_a_clock_that_goes_back_does_not_matter() -> None:
    log = StreamLog()
    for time in (5.0, 3.0, 6.0):
        log.append(message(0), time)
    assert [log.time(offset) for offset in range(3)] == [5, 5, 6]


@pytest.mark.parametrize(("when", "first", "offset"), [(0, 0, 0), (1, 0, 2), (1.5, 0, 4), (1, 3, 3), (9, 0, 10)])
def test_what_came_when(when: float, first: int, offset: int) -> None:
    assert filled(StreamLog(), 10).offset_at(when, first) == offset


@patch.multiple(stream_log, **SMALL)
def test_only_the_end_of_what_the_disk_has_is_in_memory() -> None:
    disk = Disk()
    log = StreamLog(disk.message_log, disk.fetch)
    for number in range(500):
        log.append(message(number), float(number))
        if number % 10 == 9:
            disk.commit()
    assert log.bytes_in_memory < 20 * 300
    assert disk.fetches == []
    assert numbers(log) == list(range(500))
    assert log.offset_at(77, 0) == 77
    assert log.bytes_in_memory < 1030 * 300


@patch.multiple(stream_log, **SMALL)
def test_what_is_not_on_the_disk_yet_stays() -> None:
    disk = Disk()
    log = filled(StreamLog(disk.message_log, disk.fetch), 100)
    assert log.page_out(Memory(), 1 << 30) == 0
    disk.commit()
    assert log.page_out(Memory(), 1 << 30) > 95 * 256
    assert numbers(log) == list(range(100))


def test_a_restart_finds_it_again() -> None:
    disk = Disk()
    filled(StreamLog(disk.message_log, disk.fetch), 10)
    log = again(disk)
    assert (log.first, log.next, log.last_time, numbers(log)) == (0, 10, 4, list(range(10)))
    log.trim(4, 6)
    log.append(message(10), 1.0)
    assert log.time(10) == 4
    log = again(disk)
    assert (log.first, log.next, numbers(log)) == (4, 11, list(range(4, 11)))
    log.trim(11, 0)
    log = again(disk)
    assert (log.first, log.next, numbers(log)) == (11, 11, [])
    log.append(message(11), 0.0)
    assert numbers(again(disk)) == [11]


def test_a_disk_that_takes_nothing() -> None:
    log, memory = filled(StreamLog(), 5000), Memory()
    memory.is_full = True
    with pytest.raises(OSError, match="full"):
        log.page_out(memory, 1000)
    assert numbers(log) == list(range(5000))
    log.discard()


steps = st.tuples(
    st.sampled_from(["append", "append", "trim", "page_out", "commit", "read", "restart"]), st.integers(0, 99)
)


@patch.multiple(stream_log, **SMALL)
@settings(max_examples=example_count(200), deadline=None)
@given(st.lists(steps, max_size=60), st.booleans())
def test_as_a_list_would_do(program: list[tuple[str, int]], is_kept: bool) -> None:
    disk, memory = Disk(), Memory()
    log = StreamLog(disk.message_log, disk.fetch) if is_kept else StreamLog()
    first, bodies = 0, list[bytes]()
    for step, pick in program:
        if step == "append":
            for _ in range(pick % 5):
                log.append(message(len(bodies), 10 * pick), float(len(bodies) // 3))
                bodies.append(message(len(bodies), 10 * pick).body)
        elif step == "trim":
            first = min(first + pick % 10, len(bodies))
            log.trim(first, sum(map(len, bodies[first:])))
        elif step == "page_out":
            log.page_out(memory, pick * 100)
        elif step == "commit":
            disk.commit()
        elif step == "read" and first < len(bodies):
            offset = first + pick % (len(bodies) - first)
            run = log.run(offset, 1 + pick % 4)
            assert run.messages[offset - run.first].body == bodies[offset]
            assert log.time(offset) == offset // 3
            assert log.offset_at(offset // 3, first) == max(first, offset // 3 * 3)
        elif step == "restart" and is_kept:
            log = again(disk)
        assert (log.first, log.next) == (first, len(bodies))
    assert [each.body for each in log] == bodies[first:]
    log.discard()
    assert memory.rows == {}
