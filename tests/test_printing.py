"""Printing: in batches, so that a thread is not woken for each record."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from amqproxy.config import Limits
from amqproxy.printing import Printing, PrintSettings
from amqproxy.taps.metrics import Metrics

SESSION: Any = SimpleNamespace(number=1, name="a -> b")


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is written at a time."""
    written: list[bytes] = []

    def write(descriptor: int, data: bytes) -> int:
        written.append(data)
        return len(data)

    monkeypatch.setattr("amqproxy.printing.os", SimpleNamespace(write=write, fsync=os.fsync))
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
    monkeypatch.setattr("amqproxy.printing.BATCH_INTERVAL", 3600.0)
    printing = printing_of(print_backlog=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printing.run, lambda: None)
        for count in range(1, 4):
            for _ in range(5):
                printing.tap.saw_protocol_header(SESSION, b"AMQP\0\0\x09\1")
            await printed(writes, 5 * count)
        nursery.cancel_scope.cancel()
    assert printing._queue.take_dropped() == 0
