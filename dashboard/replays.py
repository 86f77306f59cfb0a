"""Captures that are played to a broker: `amqproxy replay`, each in a process that can be ended."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from amqproxy.process.supervision import contained, describe
from amqproxy.replay.target import Target, parse_target
from dashboard.replay_child import LAST_SECONDS

MAX_RUNNING = 2
"""Replays at once."""

MAX_KEPT = 20
"""Replays that are listed; of more, the newest."""

MAX_DIFFERENCES = 500
"""Differences of a replay that are kept; all are counted, once it has ended."""

MAX_DIFFERENCE_BYTES = 1 << 20
"""Bytes that they take; those beyond it are not kept."""

MAX_LINE = 4 << 20
"""Bytes of a line of its output."""

MAX_ERRORS = 8192
"""Bytes that are kept of what it says on standard error: the last ones."""

KILL_SECONDS = LAST_SECONDS + 2.0
"""How long it may take to end before it is killed."""

_SAME, _OTHERWISE = 0, 1


class TooManyReplays(Exception):
    """No more can run at once."""


class ReplayState(StrEnum):
    """How a replay stands."""

    RUNNING = "running"
    SAME = "same"
    """All was played, and the answers were the recorded ones."""
    DIFFERENT = "different"
    """They were not, or not all of it was played."""
    ENDED = "ended"
    """It was ended by a user."""
    FAILED = "failed"
    """The capture cannot be read, or the broker not be reached."""


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to play, to which broker, how many times as fast, in how many copies, and how often.

    With `speed` None it is played as fast as the broker answers; with `loops` 0 until it is ended.
    """

    path: Path
    url: str
    speed: float | None = 1.0
    clients: int = 1
    loops: int = 1

    @property
    def arguments(self) -> list[str]:
        """The arguments of `amqproxy replay`."""
        speed = "max" if self.speed is None else f"{self.speed:g}"
        return [
            *("--json", "--progress", "--limit", str(MAX_DIFFERENCES), "--to", self.url, "--speed", speed),
            *("--clients", str(self.clients), "--loop", str(self.loops), "--", str(self.path)),
        ]


class Replay:
    """One replay, and what is known of it so far."""

    def __init__(self, number: int, plan: ReplayPlan, by: str, on_end: Callable[[Replay], None]) -> None:
        self.number = number
        self.plan = plan
        self.by = by
        self.state = ReplayState.RUNNING
        self.text = ""
        """What it says of itself: why it has failed, what it could not read."""
        self.summary: dict[str, Any] | None = None
        self.progress: dict[str, Any] | None = None
        """How far it has come, as it said last."""
        self._target = public_url(parse_target(plan.url))
        self._differences: list[msgspec.Raw] = []
        self._size = 0
        self._started_at = time.time()
        self._ended_at: float | None = None
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._is_to_end = False
        self._task = asyncio.create_task(self._contained(), name=f"replay {number}")

    @property
    def is_running(self) -> bool:
        return self.state is ReplayState.RUNNING

    @property
    def target(self) -> str:
        """The broker, without the password."""
        return self._target

    def describe(self, differences: int = MAX_DIFFERENCES) -> dict[str, Any]:
        """What is known of it, with the first `differences`."""
        known = self.summary or self.progress
        counted = len(self._differences) if known is None else max(len(self._differences), known["differences"])
        return {
            "id": self.number,
            "path": str(self.plan.path),
            "name": self.plan.path.name,
            "to": self.target,
            "speed": "max" if self.plan.speed is None else self.plan.speed,
            "clients": self.plan.clients,
            "loop": self.plan.loops,
            "by": self.by,
            "state": self.state,
            "text": self.text,
            "started_at": self._started_at,
            "ended_at": self._ended_at,
            "difference_count": counted,
            "differences": self._differences[:differences],
            "progress": self.progress,
            "summary": self.summary,
        }

    async def end(self) -> None:
        """End it: what was played by then is reported."""
        self._is_to_end = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                async with asyncio.timeout(KILL_SECONDS):
                    await asyncio.shield(self._task)
            except TimeoutError:
                self._task.cancel()
        else:
            self._task.cancel()
        await asyncio.wait((self._task,))

    async def _contained(self) -> None:
        try:
            with contained("replay failed", path=str(self.plan.path), then=self._failed):
                await self._run()
        finally:
            if self.is_running:  # it was cancelled
                self.state = ReplayState.ENDED
            self._ended_at = time.time()
            self._on_end(self)

    def _failed(self, error: Exception) -> None:
        self.state, self.text = ReplayState.FAILED, describe(error)

    async def _run(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-u", "-m", "dashboard.replay_child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE,
        )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            process.stdin.write(msgspec.json.encode(self.plan.arguments) + b"\n")
            _, text = await asyncio.gather(self._read(process.stdout), _last_of(process.stderr))
            code = await process.wait()
        finally:
            process.stdin.close()
            if process.returncode is None:
                process.kill()
                await process.wait()
        self.text = "\n".join(line.removeprefix("amqproxy: ") for line in text.splitlines())
        if self._is_to_end:
            self.state = ReplayState.ENDED
        elif code == _SAME:
            self.state = ReplayState.SAME
        elif code == _OTHERWISE and self.summary is not None and not self.summary["same"]:
            self.state = ReplayState.DIFFERENT
        else:
            self.state = ReplayState.FAILED

    async def _read(self, output: asyncio.StreamReader) -> None:
        """Take what it reports, a line at a time."""
        while line := await output.readline():
            if line.startswith(b'{"report":"summary"'):
                self.summary = msgspec.json.decode(line)
                del self.summary["report"]
            elif line.startswith(b'{"report":"progress"'):
                self.progress = msgspec.json.decode(line)
                del self.progress["report"]
            elif self._size + len(line) <= MAX_DIFFERENCE_BYTES:
                self._size += len(line)
                self._differences.append(msgspec.Raw(line.strip()))


class Replays:
    """The replays of a dashboard, by their numbers."""

    def __init__(self) -> None:
        self.replays: dict[int, Replay] = {}
        self._next = 1

    def start(self, plan: ReplayPlan, by: str, on_end: Callable[[Replay], None]) -> Replay:
        """Begin one. `TooManyReplays` where enough are running; `TargetError` where the URL names no broker."""
        if sum(each.is_running for each in self.replays.values()) >= MAX_RUNNING:
            raise TooManyReplays(f"{MAX_RUNNING} replays are running already: end one, or wait")
        replay = Replay(self._next, plan, by, on_end)
        self.replays[replay.number] = replay
        self._next += 1
        for number in [number for number, each in self.replays.items() if not each.is_running][:-MAX_KEPT]:
            del self.replays[number]
        return replay

    async def stop(self) -> None:
        """End all that run."""
        await asyncio.gather(*(each.end() for each in self.replays.values() if each.is_running))


def public_url(target: Target) -> str:
    """A broker's URL, without the password."""
    virtual_host = "" if target.virtual_host is None else quote(target.virtual_host, safe="")
    return f"{'amqps' if target.is_tls else 'amqp'}://{target.user}@{target.address}/{virtual_host}"


async def _last_of(errors: asyncio.StreamReader) -> str:
    kept = b""
    while data := await errors.read(MAX_ERRORS):
        kept = (kept + data)[-MAX_ERRORS:]
    return kept.decode(errors="replace").strip()
