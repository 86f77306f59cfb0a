"""Runs of the workbench over queues, each in a child process that continues without the page."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from amqproxy.process.supervision import contained, describe
from amqproxy.workbench.run_task import RunTask

MAX_RUNNING = 4
"""Maximum number of concurrent runs."""

MAX_KEPT = 20
"""Maximum number of finished runs that are kept; beyond it the oldest are forgotten."""

MAX_MESSAGES = 500
"""Maximum number of messages of a peek, and of edits, that are kept of a run."""

MAX_MESSAGE_BYTES = 8 << 20
"""Maximum size of these, in bytes; further ones are dropped."""

MAX_LINE = 16 << 20
"""Maximum size of a line of output, in bytes."""

MAX_ERRORS = 8192
"""Bytes kept from the end of standard error."""

STOP_SECONDS = 5.0
"""Seconds for runs to return their messages when the dashboard ends; they continue without it."""

AUDIT = "AMQPROXY_AUDIT"
"""Variable with the file of the audit, as for `amqproxy queue`."""


class RunRefused(Exception):
    """The run cannot be begun; the text has the reason."""


class RunState(StrEnum):
    """State of a run."""

    RUNNING = "running"
    DONE = "done"
    """All was done, or would be."""
    LEFT = "left"
    """Messages were left, as the result says."""
    STOPPED = "stopped"
    """A user stopped it; what was not done is in the queue."""
    REFUSED = "refused"
    """It might have lost messages, another run works on the queue, or a setting is wrong; nothing was done."""
    FAILED = "failed"
    """The broker cannot be reached, or refuses something."""


def audit_file() -> Path:
    """Return the file of the audit, that of `amqproxy queue`; journals and drained messages are beside it."""
    if AUDIT in os.environ:
        return Path(os.environ[AUDIT])
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "amqproxy" / "queue-audit.jsonl"


class WorkbenchRun:
    """One run, with its reports."""

    def __init__(
        self,
        number: int,
        source: int,
        task: RunTask,
        by: str,
        on_end: Callable[[WorkbenchRun], None],
        owner: bytes = b"",
    ) -> None:
        self.number = number
        self.source = source
        self.task = task
        """The task; once the child has it, without the password."""
        self.owner = owner
        """`BrokerLogin.owner` of the login that began it."""
        self.by = by
        self.state = RunState.RUNNING
        self.text = ""
        """The reason for a refusal or a failure."""
        self.before: dict[str, Any] | None = None
        """Facts about the queue, and what the run does to it."""
        self.result: dict[str, Any] = {}
        """Counts, as of the newest report."""
        self.warnings: list[str] = []
        self._messages: list[msgspec.Raw] = []
        self._edits: list[msgspec.Raw] = []
        self._size = 0
        self._is_ended = False
        self._is_stopping = False
        self._started_at = time.time()
        self._ended_at: float | None = None
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self.finished = asyncio.create_task(self._contained(), name=f"workbench run {number}")

    @property
    def is_running(self) -> bool:
        return self.state is RunState.RUNNING

    def stop(self) -> None:
        """Tell the run to end after its current batch."""
        self._is_stopping = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def describe(self, *, is_whole: bool = False) -> dict[str, Any]:
        """Return the run as JSON has it; only a whole one has its messages, edits and the messages that were left."""
        task = self.task
        result = self.result if is_whole else {key: self.result[key] for key in self.result if key != "left"}
        found: dict[str, Any] = {
            "id": self.number,
            "command": task.command,
            "vhost": task.vhost,
            "queue": task.queue,
            "where": task.where,
            "dry_run": task.is_dry_run,
            "by": self.by,
            "user": task.end.user,
            "state": str(self.state),
            "stopping": self._is_stopping,
            "text": self.text,
            "before": self.before,
            "result": result,
            "warnings": self.warnings,
            "file": Path(task.file).name if task.file else None,
            "started_at": self._started_at,
            "ended_at": self._ended_at,
        }
        return found | ({"messages": self._messages, "edits": self._edits} if is_whole else {})

    async def _contained(self) -> None:
        try:
            with contained("workbench run failed", queue=self.task.queue, then=self._failed):
                await self._run()
        finally:
            if self.is_running:  # cancelled
                self.state = RunState.STOPPED
            self._ended_at = time.time()
            self._on_end(self)

    def _failed(self, error: Exception) -> None:
        self.state, self.text = RunState.FAILED, describe(error)

    async def _run(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-u", "-m", "amqproxy.workbench.run_program"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE,
        )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(msgspec.json.encode(self.task) + b"\n")
        self.task = replace(self.task, end=replace(self.task.end, password=""))
        if self._is_stopping:
            process.stdin.close()
        errors = asyncio.create_task(_last_of(process.stderr))
        failure: Exception | None = None
        try:
            await self._read(process.stdout)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with its output, the child has to end
            failure = error
            await _end(process)
        text = await errors
        await process.wait()
        process.stdin.close()
        if failure is not None:
            raise failure
        if not self._is_ended:
            self.state, self.text = RunState.FAILED, text or "the run was killed"

    async def _read(self, output: asyncio.StreamReader) -> None:
        """Read the reports line by line."""
        while line := await output.readline():
            kind = msgspec.json.decode(line, type=_Report)
            if kind.report == "message":
                self._keep(self._messages, line)
            elif kind.report == "edited":
                self._keep(self._edits, line)
            elif kind.report == "before":
                self.before = {"facts": kind.facts, "lines": kind.lines}
            elif kind.report == "warning":
                self.warnings.append(kind.text)
            else:
                self.result = kind.result
                if kind.report == "end":
                    self._is_ended = True
                    self.text = kind.refusal or str(kind.result.get("failure", ""))
                    self.state = _state_of(kind)

    def _keep(self, kept: list[msgspec.Raw], line: bytes) -> None:
        if len(kept) < MAX_MESSAGES and self._size + len(line) <= MAX_MESSAGE_BYTES:
            self._size += len(line)
            kept.append(msgspec.Raw(line.strip()))


class _Report(msgspec.Struct):
    report: str
    facts: dict[str, Any] = {}
    lines: list[str] = []
    text: str = ""
    result: dict[str, Any] = {}
    refusal: str = ""


def _state_of(end: _Report) -> RunState:
    result = end.result
    if end.refusal:
        return RunState.REFUSED
    if result.get("failure"):
        return RunState.FAILED
    if result.get("is_interrupted"):
        return RunState.STOPPED
    is_left = any(result.get(key) for key in ("left_count", "is_window_full", "unreadable"))
    return RunState.LEFT if is_left else RunState.DONE


class WorkbenchRuns:
    """The runs of a dashboard, by number."""

    def __init__(self) -> None:
        self.runs: dict[int, WorkbenchRun] = {}
        self._next = 1
        self._looking: set[WorkbenchRun] = set()
        """Runs that only find out the facts about a queue."""

    def look(self, source: int, task: RunTask) -> WorkbenchRun:
        """Start a run that finds out the facts about a queue; `RunRefused` beyond the limit of such runs."""
        if len(self._looking) >= MAX_RUNNING:
            raise RunRefused(f"{MAX_RUNNING} users look at queues already: wait for a moment")
        run = WorkbenchRun(0, source, task, "", self._looking.discard)
        self._looking.add(run)
        return run

    def start(
        self, source: int, task: RunTask, by: str, on_end: Callable[[WorkbenchRun], None], owner: bytes = b""
    ) -> WorkbenchRun:
        """Start a run; `RunRefused` beyond the limit, or while another one works on the queue.

        The file of a drain gets a name that no other run gives, so that each run shows its own file.
        """
        running = [each for each in self.runs.values() if each.is_running]
        if len(running) >= MAX_RUNNING:
            raise RunRefused(f"{MAX_RUNNING} runs are going on already: stop one, or wait")
        place = (source, task.vhost, task.queue)
        if any((each.source, each.task.vhost, each.task.queue) == place for each in running):
            raise RunRefused("another run works on this queue")
        if task.file:
            path = Path(task.file)
            name = f"{path.stem}-{self._next}-{secrets.token_hex(4)}{path.suffix}"
            task = replace(task, file=str(path.with_name(name)))
        run = WorkbenchRun(self._next, source, task, by, on_end, owner)
        self.runs[run.number] = run
        self._next += 1
        for number in [number for number, each in self.runs.items() if not each.is_running][:-MAX_KEPT]:
            del self.runs[number]
        return run

    async def stop(self) -> None:
        """Tell all runs to end, and wait for some seconds until they have returned their messages."""
        running = [each for each in (*self.runs.values(), *self._looking) if each.is_running]
        for each in running:
            each.stop()
        if running:
            await asyncio.wait([each.finished for each in running], timeout=STOP_SECONDS)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Tell a child to end whose output is not read any more, and kill it if it does not in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await _last_of(process.stdout)
    except TimeoutError:
        process.kill()  # what it has taken goes back to the queue


async def _last_of(errors: asyncio.StreamReader) -> str:
    kept = b""
    while data := await errors.read(MAX_ERRORS):
        kept = (kept + data)[-MAX_ERRORS:]
    return kept.decode(errors="replace").strip()
