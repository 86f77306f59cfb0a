"""Printing: in batches, so that a thread is not woken for each record."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.app.printing import Printing, PrintSettings
from amqproxy.capture.text_lines import TextLines
from amqproxy.configuration.config import Limits
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.metrics import Metrics
from tests.transcripts.words import octets

FRAMES = octets("1: tx.select, 1: tx.commit")
SESSION: Any = SimpleNamespace(number=1, name="a -> b")


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is written at a time."""
    written: list[bytes] = []

    def write(descriptor: int, data: bytes) -> int:
        written.append(data)
        return len(data)

    monkeypatch.setattr("amqproxy.app.printing.os", SimpleNamespace(write=write, fsync=os.fsync))
    return written


async def printed(writes: list[bytes], lines: int) -> None:
    with trio.fail_after(20):
        while b"".join(writes).count(b"\n") < lines:  # noqa: ASYNC110
            await trio.sleep(0.001)


def printing_of(**limits: Any) -> Printing:
    settings = PrintSettings(render=lambda record: str(record.protocol))
    return Printing(settings, Limits(**limits), Metrics())


async def test_what_comes_behind_a_record_is_printed_with_the_next_batch(
    writes: list[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    printing = printing_of()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printing.run, lambda: None)
        await trio.testing.wait_all_tasks_blocked()
        printing.tap.saw_protocol_header(SESSION, b"AMQP\0\0\x09\1")
        await printed(writes, 1)
        assert len(writes) == 1  # at once
        for _ in range(100):
            printing.tap.saw_protocol_header(SESSION, b"AMQP\0\0\x09\1")
            await trio.lowlevel.checkpoint()
        await printed(writes, 101)
        assert len(writes) < 20
        nursery.cancel_scope.cancel()


async def test_a_queue_that_is_half_full_waits_for_nothing(
    writes: list[bytes], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("amqproxy.app.printing.BATCH_INTERVAL", 3600.0)
    printing = printing_of(print_backlog=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printing.run, lambda: None)
        for count in range(1, 4):
            for _ in range(5):
                printing.tap.saw_protocol_header(SESSION, b"AMQP\0\0\x09\1")
            await printed(writes, 5 * count)
        nursery.cancel_scope.cancel()
    assert printing._queue.take_dropped() == 0


def lines_of(**limits: Any) -> Printing:
    return Printing(PrintSettings(render=str, lines=TextLines), Limits(**limits), Metrics())


async def test_lines_are_written_from_the_bytes_of_frames(
    writes: list[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    printing = lines_of()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printing.run, lambda: None)
        await trio.testing.wait_all_tasks_blocked()
        printing.tap.saw_protocol_header(SESSION, b"AMQP\0\0\x09\1")
        printing.tap.saw_frames(SESSION, CLIENT, Amqp091Chunk(FRAMES, 8))
        await printed(writes, 3)
        nursery.cancel_scope.cancel()
    text = b"".join(writes).decode()
    assert [each.split("ch 1")[-1].split() for each in text.splitlines()[1:]] == [["tx.select"], ["tx.commit"]]


async def test_frames_without_room_are_counted_one_by_one(
    writes: list[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    printing = lines_of(print_backlog=5)
    for _ in range(5):
        printing.tap.saw_frames(SESSION, CLIENT, Amqp091Chunk(FRAMES, 0))
    assert printing._queue.take_dropped() == 4
    await printing.finish()
    assert b"".join(writes).count(b"\n") == 6


async def test_what_cannot_be_written_is_not_the_trouble_of_other_lines(
    writes: list[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    printing = lines_of()
    printing.tap.saw_frames(SESSION, "nobody", Amqp091Chunk(FRAMES, 0))  # type: ignore[arg-type]
    printing.tap.saw_frames(SESSION, CLIENT, Amqp091Chunk(FRAMES, 0))
    with capture_logs() as log:
        await printing.finish()
    assert [(each["event"], each["count"]) for each in log if each["log_level"] == "error"] == [
        ("records not printed", 1)
    ]
    assert b"".join(writes).count(b"\n") == 2


async def test_many_lines_are_written_in_parts(
    writes: list[bytes], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("amqproxy.app.printing.WRITE_SIZE", 100)
    printing = lines_of()
    for _ in range(3):
        printing.tap.saw_frames(SESSION, CLIENT, Amqp091Chunk(FRAMES * 2, 0))
    await printing.finish()
    assert [each.count(b"\n") for each in writes] == [4, 4, 4]


async def test_what_a_thread_that_was_left_has_to_write_comes_before_what_is_written_last(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    written: list[bytes] = []
    blocked, released = threading.Event(), threading.Event()

    def write(descriptor: int, data: bytes) -> int:
        blocked.set()
        assert released.wait(20)
        written.append(data)
        return len(data)

    monkeypatch.setattr("amqproxy.app.printing.os", SimpleNamespace(write=write))
    monkeypatch.setattr("amqproxy.app.printing.WRITE_SIZE", 1)
    monkeypatch.setattr("amqproxy.app.printing.PATIENCE", 20.0)
    printing = lines_of()
    for _ in range(3):
        printing.tap.saw_frames(SESSION, CLIENT, Amqp091Chunk(octets("1: tx.select"), 0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printing.run, lambda: None)
        with trio.fail_after(20):
            while not blocked.is_set():  # noqa: ASYNC110
                await trio.sleep(0.001)
        nursery.cancel_scope.cancel()
    printing.tap.saw_frames(SESSION, CLIENT, Amqp091Chunk(octets("1: tx.commit"), 0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printing.finish)
        await trio.testing.wait_all_tasks_blocked(0.05)
        released.set()
    assert [line.split()[-1] for line in b"".join(written).splitlines()] == [b"tx.select"] * 3 + [b"tx.commit"]
