"""The process of a move: it is started again until it has done the job."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.moving.move_job import JobReport, MovedQueue, MoveEnd, MoveJob, Report
from amqproxy.switching import mover_process
from amqproxy.switching.mover_process import run_mover

NOWHERE = MoveEnd(upstream=UpstreamConfig(address="127.0.0.1:1"), user="guest", password="guest")


async def test_a_job_is_done_once_it_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover_process, "LEAST_PAUSE", 0.01)
    reports: list[Report] = []
    jobs = iter([ValueError("there is no login"), MoveJob(source=NOWHERE, target=NOWHERE, queues=())])

    def make() -> MoveJob:
        found = next(jobs)
        if isinstance(found, ValueError):
            raise found
        return found

    with trio.fail_after(60):
        await run_mover(make, reports.append, "s")
    assert reports == [JobReport(text="there is no login"), JobReport(is_done=True)]


async def test_a_killed_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover_process, "LEAST_PAUSE", 0.01)
    started: list[trio.Process] = []
    opening = trio.lowlevel.open_process

    async def noted(*arguments: object, **options: object) -> trio.Process:
        started.append(await opening(*arguments, **options))  # type: ignore[arg-type]
        return started[-1]

    monkeypatch.setattr(trio.lowlevel, "open_process", noted)
    job = MoveJob(source=NOWHERE, target=NOWHERE, queues=(MovedQueue("/", "q"),))

    def note(report: Report) -> None:
        if len(started) < 3:
            started[-1].kill()
        else:
            scope.cancel()

    with trio.fail_after(60), trio.CancelScope() as scope:
        await run_mover(lambda: job, note, "s")
    assert [each.poll() for each in started] == [-9, -9, 0]  # the last one ends with its input
