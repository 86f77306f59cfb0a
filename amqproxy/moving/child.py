"""A move as a process of its own, so that no client of a proxy waits for it.

The job is one line of JSON on standard input, whose end ends the process; reports are lines on standard output.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from amqproxy.moving.move_job import JobReport, MoveJob, Report
from amqproxy.moving.move_program import MoveProgram

LOCK_INTERVAL = 0.1
"""Seconds between two attempts to get the lock."""

MAX_JOB = 64 * 1024 * 1024
"""Limit of the job's line in bytes."""

_encoder = msgspec.json.Encoder()


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(MAX_JOB), type=MoveJob)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles SIGINT
    trio.run(_run, job)


async def _run(job: MoveJob) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_with_input, nursery.cancel_scope)
        async with _locked(job.lock):
            await MoveProgram(job, _report).run()
        nursery.cancel_scope.cancel()


def _report(report: Report) -> None:
    os.write(sys.stdout.fileno(), _encoder.encode(report) + b"\n")


async def _end_with_input(scope: trio.CancelScope) -> None:
    """End the move when the parent has ended."""
    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stream:
        while await stream.receive_some():
            pass
    scope.cancel()


@asynccontextmanager
async def _locked(path: str) -> AsyncIterator[None]:
    """Hold the lock within the block: two moves of one queue would mix its messages."""
    if not path:
        yield
        return
    with Path(path).open("ab") as file:  # noqa: ASYNC230 - nothing else runs here meanwhile
        has_waited = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not has_waited:
                    has_waited = True
                    _report(JobReport(text=f"another move holds {path}"))
                await trio.sleep(LOCK_INTERVAL)
        yield


if __name__ == "__main__":
    main()
