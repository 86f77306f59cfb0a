"""Replays of captures to a broker by `amqproxy replay`, each in a child process."""

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

from amqproxy.dashboard.replay_child import LAST_SECONDS
from amqproxy.process.supervision import contained, describe
from amqproxy.replay.target import Target, parse_target

MAX_RUNNING = 2
"""Maximum number of concurrent replays."""

MAX_KEPT = 20
"""Maximum number of finished replays that are kept; beyond it the oldest are forgotten."""

MAX_DIFFERENCES = 500
"""Maximum number of differences, of answers and of sent commands each, that are kept of a replay.

Those of answers are all counted when it has ended.
"""

MAX_DIFFERENCE_BYTES = 1 << 20
"""Maximum size of the kept differences, in bytes; further ones are dropped."""

MAX_LINE = 4 << 20
"""Maximum size of a line of output, in bytes."""

MAX_ERRORS = 8192
"""Bytes kept from the end of standard error."""

KILL_SECONDS = LAST_SECONDS + 2.0
"""Seconds for a replay to end before it is killed."""

_SAME, _OTHERWISE = 0, 1


class TooManyReplays(Exception):
    """The limit on concurrent replays is reached."""


class ReplayState(StrEnum):
    """State of a replay."""

    RUNNING = "running"
    SAME = "same"
    """All was played, and the answers equal the recorded ones."""
    DIFFERENT = "different"
    """Answers differ from the recorded ones, or not everything was played."""
    ENDED = "ended"
    """A user ended it."""
    FAILED = "failed"
    """The capture cannot be read, or the broker cannot be reached."""


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a replay: the capture, the broker, the speed factor, the number of copies and of repetitions.

    With `speed` `None` it is played as fast as the broker answers; with `loops` 0 until it is ended.
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
            *("--json", "--progress", "--sent", "--limit", str(MAX_DIFFERENCES), "--to", self.url, "--speed", speed),
            *("--clients", str(self.clients), "--loop", str(self.loops), "--", str(self.path)),
        ]


class Replay:
    """One replay, with its progress and report."""

    def __init__(self, number: int, plan: ReplayPlan, by: str, on_end: Callable[[Replay], None]) -> None:
        self.number = number
        self.plan = plan
        self.by = by
        self.state = ReplayState.RUNNING
        self.text = ""
        """Messages on standard error: why it failed, or which parts of the capture could not be read."""
        self.summary: dict[str, Any] | None = None
        self.progress: dict[str, Any] | None = None
        """The newest progress report."""
        self._target = public_url(parse_target(plan.url))
        self._differences: list[msgspec.Raw] = []
        self._sent: list[msgspec.Raw] = []
        """Commands that were sent otherwise than recorded."""
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
        """The broker's URL without its password."""
        return self._target

    def describe(self, differences: int = MAX_DIFFERENCES) -> dict[str, Any]:
        """Return the replay in its JSON form, with the first `differences` of answers and of sent commands."""
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
            "sent": self._sent[:differences],
            "progress": self.progress,
            "summary": self.summary,
        }

    async def end(self) -> None:
        """End the replay, and wait until it has reported the part that was played."""
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
            if self.is_running:  # cancelled
                self.state = ReplayState.ENDED
            self._ended_at = time.time()
            self._on_end(self)

    def _failed(self, error: Exception) -> None:
        self.state, self.text = ReplayState.FAILED, describe(error)

    async def _run(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-u", "-m", "amqproxy.dashboard.replay_child"),
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
        """Read the report line by line."""
        while line := await output.readline():
            if line.startswith(b'{"report":"summary"'):
                self.summary = msgspec.json.decode(line)
                del self.summary["report"]
            elif line.startswith(b'{"report":"progress"'):
                self.progress = msgspec.json.decode(line)
                del self.progress["report"]
            elif self._size + len(line) <= MAX_DIFFERENCE_BYTES:
                self._size += len(line)
                kept = self._sent if line.startswith(b'{"report":"sent"') else self._differences
                kept.append(msgspec.Raw(line.strip()))


class Replays:
    """The replays of a dashboard, by number."""

    def __init__(self) -> None:
        self.replays: dict[int, Replay] = {}
        self._next = 1

    def start(self, plan: ReplayPlan, by: str, on_end: Callable[[Replay], None]) -> Replay:
        """Start a replay; `TooManyReplays` beyond the limit, `TargetError` if the URL does not name a broker."""
        if sum(each.is_running for each in self.replays.values()) >= MAX_RUNNING:
            raise TooManyReplays(f"{MAX_RUNNING} replays are running already: end one, or wait")
        replay = Replay(self._next, plan, by, on_end)
        self.replays[replay.number] = replay
        self._next += 1
        for number in [number for number, each in self.replays.items() if not each.is_running][:-MAX_KEPT]:
            del self.replays[number]
        return replay

    async def stop(self) -> None:
        """End all running replays."""
        await asyncio.gather(*(each.end() for each in self.replays.values() if each.is_running))


def public_url(target: Target) -> str:
    """Return a broker's URL without the password."""
    virtual_host = "" if target.virtual_host is None else quote(target.virtual_host, safe="")
    return f"{'amqps' if target.is_tls else 'amqp'}://{target.user}@{target.address}/{virtual_host}"


async def _last_of(errors: asyncio.StreamReader) -> str:
    kept = b""
    while data := await errors.read(MAX_ERRORS):
        kept = (kept + data)[-MAX_ERRORS:]
    return kept.decode(errors="replace").strip()
