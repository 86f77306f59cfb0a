"""A move in a process of its own, which is started again until the job is done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec
import trio

from amqproxy.moving.move_job import JobReport, MoveJob, Report
from amqproxy.process.log import logger

COMMAND = (sys.executable, "-P", "-m", "amqproxy.moving.child")
"""`-P`: not from the current directory, where another `amqproxy` may be."""

LEAST_PAUSE, MOST_PAUSE = 0.5, 10.0
"""Seconds before a process is started again: doubled each time, unless it has moved something."""

END_TIMEOUT = 5.0
"""Seconds for a process to end once its input has."""

MAX_LINE = 1024 * 1024

_decoder = msgspec.json.Decoder(Report)


async def run_mover(make_job: Callable[[], MoveJob], on_report: Callable[[Report], None], name: str) -> None:
    """Run processes until one has done the job; `make_job` is asked for each, and may raise `ValueError`.

    `name` is the switch's, for the log.
    """
    pause = LEAST_PAUSE
    while True:
        try:
            job = make_job()
        except ValueError as error:
            on_report(JobReport(text=str(error)))
        else:
            is_done, has_moved = await _run_once(job, on_report, name)
            if is_done:
                return
            if has_moved:
                pause = LEAST_PAUSE
        await trio.sleep(pause)
        pause = min(2 * pause, MOST_PAUSE)


async def _run_once(job: MoveJob, on_report: Callable[[Report], None], name: str) -> tuple[bool, bool]:
    """Run one process; return whether it has done the job, and whether it has reported a queue."""
    is_done = has_moved = False
    # A separate session: Ctrl-C drains the proxy, which ends the process with its standard input.
    process = await trio.lowlevel.open_process(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    logger().info("mover started", switch=name, pid=process.pid)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(trio.BrokenResourceError):
            await process.stdin.send_all(msgspec.json.encode(job) + b"\n")
        unread = b""
        async for data in process.stdout:
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                report = _decoder.decode(line)
                is_done = is_done or (isinstance(report, JobReport) and report.is_done)
                has_moved = has_moved or not isinstance(report, JobReport)
                on_report(report)
            if len(unread) > MAX_LINE:
                break
        code = await process.wait()
        if not is_done:
            logger().warning("mover ended", switch=name, code=code)
    finally:
        with trio.CancelScope(shield=True):
            await _end(process)
    return is_done, has_moved


async def _end(process: trio.Process) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.aclose()
    if process.poll() is None:
        with trio.move_on_after(END_TIMEOUT):
            await process.wait()
    if process.poll() is None:
        process.kill()
        await process.wait()
    await process.stdout.aclose()
