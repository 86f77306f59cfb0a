"""Readings of rules have a deadline each: one that never ends blocks no other, and its thread is stopped."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from amqproxy.control import rule_reader
from amqproxy.control.request import CheckRules
from amqproxy.control.request_error import RequestError
from amqproxy.control.request_handler import RequestHandler
from amqproxy.control.rule_control import RuleControl
from amqproxy.control.rule_reader import RuleReader
from tests.alias_bombs import LISTS
from tests.control.rule_owner import LOG, Owner

ENDLESS = "while True:\n    pass\n"
SCRIPT = {"name": "s", "action": "script", "file": "endless.py"}


@pytest.fixture(autouse=True)
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_reader, "READ_SECONDS", 0.5)


async def test_nine_checks_behind_a_bad_one_are_answered(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    owner = Owner()
    handler = RequestHandler(
        owner, tuple, now=lambda: 0.0, time=lambda: 0.0, rules=RuleControl(owner, directory=tmp_path)
    )
    refused: list[str] = []
    answered: list[Any] = []

    async def check(**given: Any) -> None:
        try:
            answered.append(await handler.answered(CheckRules(**given)))
        except RequestError as error:
            refused.append(f"{error.name}: {error}")

    before = threading.active_count()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(check, rules=[SCRIPT]))
            nursery.start_soon(partial(check, text=LISTS, format="yaml"))
            for _ in range(9):
                nursery.start_soon(partial(check, rules=[LOG]))
    assert len(answered) == 9
    assert sorted(refused) == [
        "too-slow: the rules take more than 0.5 s to read: shorten them or their scripts",
        "wrong-rules: rules:6: more than 250000 values, with those that aliases repeat: write fewer",
    ]
    assert threading.active_count() <= before + 3  # trio keeps idle threads for a while


async def test_a_thread_past_its_deadline_is_stopped() -> None:
    stopped = threading.Event()

    def endless() -> None:
        try:
            while True:
                pass
        finally:
            stopped.set()

    with pytest.raises(RequestError, match="take more than"):
        await RuleReader().read(endless)
    assert await trio.to_thread.run_sync(stopped.wait, 30)


async def test_threads_that_cannot_be_stopped_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_reader, "READ_SECONDS", 0.05)
    reader = RuleReader()
    may_end = threading.Event()
    for _ in range(rule_reader.MAX_STUCK):
        with pytest.raises(RequestError, match="take more than"):
            await reader.read(may_end.wait)
    with pytest.raises(RequestError, match="cannot be stopped") as error:
        await reader.read(int)
    assert error.value.name == "busy"
    may_end.set()
    with trio.fail_after(30):
        while True:
            try:
                assert await reader.read(int) == 0
                break
            except RequestError:
                await trio.sleep(0.01)


async def test_a_reading_that_was_cancelled_before_it_began_does_nothing() -> None:
    reading = rule_reader._Reading(time.time)
    reading.stop()
    with pytest.raises(rule_reader.ReadingStopped):
        reading()
    reading.stop()
