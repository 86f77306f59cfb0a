"""Runs of the workbench as child processes: stopped, refused, failed."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.dashboard import workbench_runs
from amqproxy.dashboard.workbench_runs import (
    AUDIT,
    MAX_KEPT,
    MAX_RUNNING,
    RunRefused,
    RunState,
    WorkbenchRuns,
    audit_file,
)
from amqproxy.moving.move_job import MoveEnd
from amqproxy.workbench.run_task import RunTask

pytestmark = pytest.mark.once


def task(port: int, queue: str = "q") -> RunTask:
    end = MoveEnd(upstream=UpstreamConfig(address=f"127.0.0.1:{port}"), user="guest", password="hush")
    return RunTask(command="peek", end=end, vhost="/", queue=queue, type="classic", limit=1)


class SilentBroker:
    """A server that accepts connections, and says nothing."""

    def __init__(self) -> None:
        self.accepted = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> SilentBroker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for each in self._writers:
            each.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.accepted.set()


def test_a_run_is_stopped_and_another_one_on_its_queue_refused() -> None:
    async def run() -> None:
        runs, ended = WorkbenchRuns(), []
        async with SilentBroker() as broker:
            started = runs.start(0, task(broker.port), "me", ended.append)
            with pytest.raises(RunRefused, match="another run works on this queue"):
                runs.start(0, task(broker.port), "you", ended.append)
            await broker.accepted.wait()
            assert started.is_running
            assert "hush" not in str(started.describe(is_whole=True))
            started.stop()
            await started.finished
            assert started.state is RunState.STOPPED
            assert ended == [started]
            again = runs.start(0, task(broker.port), "you", ended.append)
            await runs.stop()
            assert again.state is RunState.STOPPED

    asyncio.run(run())


def test_a_broker_that_is_not_there_is_named() -> None:
    async def run() -> None:
        async with SilentBroker() as broker:
            port = broker.port
        started = WorkbenchRuns().start(0, task(port), "me", lambda run: None)
        await started.finished
        assert started.state is RunState.FAILED
        assert str(port) in started.text

    asyncio.run(run())


def test_runs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(*arguments: Any, **options: Any) -> Any:
        raise OSError("no more processes")

    async def run() -> None:
        runs = WorkbenchRuns()
        for number in range(MAX_RUNNING):
            runs.start(0, task(1, str(number)), "me", lambda run: None)
        with pytest.raises(RunRefused, match="are going on already"):
            runs.start(0, task(1, "more"), "me", lambda run: None)
        await asyncio.wait([each.finished for each in runs.runs.values()])
        assert {each.state for each in runs.runs.values()} == {RunState.FAILED}
        for number in range(MAX_KEPT + 3):
            await runs.start(0, task(1, str(number)), "me", lambda run: None).finished
        assert len(runs.runs) <= MAX_KEPT + 1

    monkeypatch.setattr(asyncio, "create_subprocess_exec", at_once)
    asyncio.run(run())


@pytest.mark.parametrize(("program", "code"), [("sys.stdin.read()", 0), ("time.sleep(600)", -signal.SIGKILL)])
def test_a_child_whose_output_is_wrong_is_ended(program: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, processes = asyncio.create_subprocess_exec, list[asyncio.subprocess.Process]()

    async def child(*arguments: Any, **options: Any) -> Any:
        text = f"import sys, time; print('no report', flush=True); {program}"
        processes.append(await usual(sys.executable, "-c", text, **options))
        return processes[-1]

    async def run() -> None:
        started = WorkbenchRuns().start(0, task(1), "me", lambda run: None)
        await started.finished
        assert started.state is RunState.FAILED
        assert "hush" not in str(started.task)

    if code:
        monkeypatch.setattr(workbench_runs, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", child)
    asyncio.run(run())
    assert [each.returncode for each in processes] == [code]


def test_looks_at_queues_are_bounded() -> None:
    async def run() -> None:
        runs = WorkbenchRuns()
        async with SilentBroker() as broker:
            for _ in range(MAX_RUNNING):
                runs.look(0, task(broker.port))
            with pytest.raises(RunRefused, match="wait for a moment"):
                runs.look(0, task(broker.port))
            await runs.stop()
            assert not runs._looking

    asyncio.run(run())


def test_each_drain_has_a_file_of_its_own() -> None:
    async def run() -> None:
        runs = WorkbenchRuns()
        drain = replace(task(1), file="/drained/a.jsonl")
        names = []
        for _ in range(2):
            started = runs.start(0, drain, "me", lambda run: None)
            names.append(started.task.file)
            await started.finished
        assert [re.sub("-[0-9a-f]{8}", "", each) for each in names] == ["/drained/a-1.jsonl", "/drained/a-2.jsonl"]

    asyncio.run(run())


def test_the_audit_is_that_of_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUDIT, "/a/b.jsonl")
    assert audit_file() == Path("/a/b.jsonl")
    monkeypatch.delenv(AUDIT)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert audit_file() == Path("/state/amqproxy/queue-audit.jsonl")
