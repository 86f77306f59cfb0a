"""Decodes bodies in child processes, since a hostile body may crash a decoder or keep it busy forever."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress

import msgspec

from amqproxy.bodies.body_child import LENGTH, BodyOutcome, BodyTask
from amqproxy.bodies.body_views import COMPILE_SECONDS, BodyView, NotInForm, body_view
from amqproxy.process.log import logger

MAX_PROCESSES = 2
"""Maximum number of bodies that are decoded concurrently."""

MAX_WAITING = 16
"""Maximum number of bodies that are being decoded or wait for a process."""

SECONDS = 3.0
"""Time limit for decoding one body, in seconds; with a schema, `COMPILE_SECONDS` are added."""

START_SECONDS = 30.0
"""Seconds until a child process has to be ready."""

IDLE_SECONDS = 60.0
"""Seconds after which an idle child process is ended."""

MAX_OUTCOME = 16 * 1024 * 1024
"""Maximum size of an outcome, in bytes."""

_decode = msgspec.msgpack.Decoder(BodyOutcome).decode


class TooManyBodies(Exception):
    """Too many bodies are waiting to be decoded."""


class BodyReader:
    """Body decoder of one dashboard; a child process serves many tasks, until one of them fails."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._turns = asyncio.Semaphore(MAX_PROCESSES)
        self._waiting = 0
        self._idle: list[tuple[asyncio.subprocess.Process, asyncio.TimerHandle]] = []

    async def view(self, task: BodyTask) -> BodyView:
        """Return a body's view like `body_view`; `NotInForm` also if decoding exceeds its time or memory.

        With the form "auto", such a body is returned in hex.
        """
        if task.form == "hex":
            return body_view(task.body, "hex")
        if self._waiting >= MAX_WAITING:
            raise TooManyBodies("too many bodies wait to be read: ask again later")
        self._waiting += 1
        try:
            async with self._turns:
                outcome = await self._outcome(task)
        finally:
            self._waiting -= 1
        if outcome.view is not None:
            return outcome.view
        if task.form == "auto":
            return body_view(task.body, "hex")
        raise NotInForm(outcome.reason)

    async def stop(self) -> None:
        """End all idle child processes."""
        while self._idle:
            process, timer = self._idle.pop()
            timer.cancel()
            await _end(process)

    async def _outcome(self, task: BodyTask) -> BodyOutcome:
        process, is_new = await self._process()
        is_whole = False
        try:
            if is_new:
                async with asyncio.timeout(START_SECONDS):
                    await _read(process)
            async with asyncio.timeout(self._seconds + (COMPILE_SECONDS if task.schema else 0)):
                await _write(process, msgspec.msgpack.encode(task))
                data = await _read(process)
            is_whole = True
            outcome = _decode(data)
            for addon, reason in outcome.failed_addons:
                logger().warning("addon failed", addon=addon, reason=reason)
            return outcome
        except TimeoutError:
            return BodyOutcome(reason="reading it takes too long")
        except (asyncio.IncompleteReadError, OSError, ValueError):
            return BodyOutcome(reason="whatever reads this form has failed at it")
        finally:
            if is_whole:
                self._keep(process)
            else:
                await asyncio.shield(_end(process))

    async def _process(self) -> tuple[asyncio.subprocess.Process, bool]:
        """Return a child process, and whether it is new and still has to report that it is ready."""
        while self._idle:
            process, timer = self._idle.pop()
            timer.cancel()
            if process.returncode is None:
                return process, False
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "amqproxy.bodies.body_child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # a decoder's messages are text of a hostile client
            limit=MAX_OUTCOME,
            start_new_session=True,  # so that the schema compiler that it starts is killed with it
        )
        return process, True

    def _keep(self, process: asyncio.subprocess.Process) -> None:
        timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._forget, process)
        self._idle.append((process, timer))

    def _forget(self, process: asyncio.subprocess.Process) -> None:
        self._idle = [each for each in self._idle if each[0] is not process]
        if process.stdin is not None:
            process.stdin.close()


async def _write(process: asyncio.subprocess.Process, task: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(len(task).to_bytes(LENGTH) + task)
    await process.stdin.drain()


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    length = int.from_bytes(await process.stdout.readexactly(LENGTH))
    if length > MAX_OUTCOME:
        raise ValueError("the outcome is too long")
    return await process.stdout.readexactly(length)


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
