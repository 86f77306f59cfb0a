"""A move as a process: it ends with its input, and two do not move at the same time."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.moving.move_job import JobReport, MovedQueue, MoveEnd, MoveJob, Report

NOWHERE = MoveEnd(upstream=UpstreamConfig(address="127.0.0.1:1"), user="guest", password="guest")


@pytest.fixture
def job(tmp_path: Path) -> MoveJob:
    """A job without queues, which is done at once, behind a lock."""
    return MoveJob(source=NOWHERE, target=NOWHERE, queues=(), lock=str(tmp_path / "lock"))


class Child:
    """The process, and its reports."""

    def __init__(self, job: MoveJob) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "amqproxy.moving.child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(job) + b"\n")
        self.process.stdin.flush()

    def report(self) -> Report:
        assert self.process.stdout is not None
        return msgspec.json.decode(self.process.stdout.readline(), type=Report)

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


@pytest.fixture
def children() -> Iterator[list[Child]]:
    found: list[Child] = []
    yield found
    for each in found:
        each.process.kill()
        each.end()


def test_a_job_waits_for_the_lock(job: MoveJob, children: list[Child]) -> None:
    with Path(job.lock).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        children.append(Child(job))
        assert children[0].report() == JobReport(text=f"another move holds {job.lock}")
    assert children[0].report() == JobReport(is_done=True)
    assert children[0].process.wait(30) == 0


def test_a_job_ends_with_its_input(job: MoveJob, children: list[Child]) -> None:
    children.append(Child(msgspec.structs.replace(job, queues=(MovedQueue("/", "q"),))))
    assert "127.0.0.1:1 refused the connection" in str(children[0].report())
    assert children[0].end() == 0


def test_a_password_is_in_no_argument(job: MoveJob, children: list[Child]) -> None:
    end = msgspec.structs.replace(NOWHERE, password="s3cret")
    children.append(Child(msgspec.structs.replace(job, source=end, queues=(MovedQueue("/", "q"),))))
    children[0].report()
    assert b"s3cret" not in Path(f"/proc/{children[0].process.pid}/cmdline").read_bytes()
