"""Runs of a shovel, one after another: what is counted on, and what is reported at their ends."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from amqproxy.amqp091.methods import BasicAck
from amqproxy.shovels import shovel_task
from amqproxy.shovels.property_changes import PropertyChanges
from amqproxy.shovels.shovel_forwarder import ShovelForwarder
from amqproxy.shovels.shovel_messages import CountsReport, ShovelState, StartShovel
from amqproxy.shovels.shovel_run import ShovelFailed
from amqproxy.shovels.shovel_task import ShovelTask
from tests.shovels.shovel_frames import delivery, methods, shovel_of

Script = list[tuple[int, Exception | None]]


def reports_of(monkeypatch: pytest.MonkeyPatch, script: Script, **changed: Any) -> tuple[list[Any], list[int | None]]:
    """Run a shovel whose runs each move a number of messages, and fail; return its reports, and what was remaining."""
    reports: list[Any] = []
    remaining: list[int | None] = []
    shovel, runs = shovel_of(reconnect_delay=1, **changed), iter(script)

    class ScriptedRun:
        """A run that connects if it moves any message."""

        def __init__(self, _shovel: object, _open: object, _on_running: object, left: int | None) -> None:
            self.forwarder: ShovelForwarder | None = None
            remaining.append(left)

        async def run(self, _opening: object) -> None:
            count, failure = next(runs)
            if count:
                changes = PropertyChanges(shovel, "s", "d", lambda: 0.0)
                left = shovel.delete_after if remaining[-1] is None else remaining[-1]
                self.forwarder = forwarder = ShovelForwarder(
                    shovel, changes, 0, left if isinstance(left, int) else None
                )
                forwarder.deliver([each for tag in range(1, count + 1) for each in delivery(tag)])
                forwarder.confirm(methods(BasicAck(count, multiple=True)))
            if failure is not None:
                raise failure

    async def report(each: Any) -> None:
        reports.append(each)

    async def main() -> None:
        task = ShovelTask(StartShovel(7, shovel), None, report, None)  # type: ignore[arg-type]
        with trio.fail_after(100):
            await task.run(None)  # type: ignore[arg-type]

    monkeypatch.setattr(shovel_task, "ShovelRun", ScriptedRun)
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return reports, remaining


LOST = ShovelFailed("needed a restart", "gone")


def test_a_number_of_messages_is_counted_on_over_runs_that_cannot_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    script: Script = [(4, LOST), (0, LOST), (0, LOST), (6, None)]
    assert reports_of(monkeypatch, script, src_delete_after=10)[1] == [None, 6, 6, 6]


def test_the_last_counts_are_reported_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reports, _ = reports_of(monkeypatch, [(4, LOST), (6, None)], src_delete_after=10)
    before, end = reports[-2:]
    assert isinstance(before, CountsReport)
    assert [(each.moved, each.remaining) for each in before.counts] == [(10, 0)]
    assert end == ShovelState(7, "is-over")
    assert isinstance(reports[1], CountsReport)
    assert reports[2].state == "terminated"


@pytest.mark.parametrize("failure", [ShovelFailed("needed a restart", "caf\udcc3"), ValueError("caf\udcc3")])
def test_a_reply_text_that_is_cut_within_a_character_can_be_reported(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, _ = reports_of(monkeypatch, [(1, failure), (1, None)])
    [end] = [each for each in reports if isinstance(each, ShovelState) and each.state == "terminated"]
    assert "caf\ufffd" in end.cause
