"""Killed at any moment, the store has all that it reported as written."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amqproxy.broker.storage.store import Store
from tests.broker.crashing import OWNERS, UNIT, body

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def reported(directory: Path, seconds: float) -> tuple[int, int]:
    """Let a process write for a while, counted from its first commit, and kill it; the last that it reported."""
    command = [sys.executable, "-m", "tests.broker.crashing", str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        lines = process.stdout.read(64)
        assert lines, "it ended by itself"
        os.set_blocking(process.stdout.fileno(), False)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            lines += process.stdout.read(65536) or b""
            time.sleep(min(0.005, max(0.0, end - time.monotonic())))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        os.set_blocking(process.stdout.fileno(), True)
        lines += process.stdout.read()
    enqueued, settled = lines.rpartition(b"\n")[0].rpartition(b"\n")[2].split()
    return int(enqueued), int(settled)


def check(directory: Path, enqueued: int, settled: int) -> int:
    """What is found is a whole number of batches, the reported ones among them; how many messages."""
    store = Store(directory)
    try:
        contents = store.load()
        assert [message_log.owner for message_log in contents.message_logs] == list(OWNERS)
        first, second = (message_log.state for message_log in contents.message_logs)
        assert first[1:] == second[1:]
        assert first.last >= enqueued
        assert first.last - first.messages >= settled
        assert first.last % UNIT == first.messages % UNIT == 0
        expected = list(range(first.last - first.messages + 1, first.last + 1))
        for state in (first, second):
            found = []
            while some := store.fetch(state.number, found[-1] + 1 if found else 0, 1000):
                found += [each.position for each in some]
                assert all(each.message.body == body(each.position) for each in some)
            assert found == expected
            assert state.body_bytes == sum(len(body(number)) for number in expected)
        return first.messages
    finally:
        store.close()


def crash(directory: Path, rounds: int) -> None:
    for _ in range(rounds):
        check(directory, *reported(directory, random.uniform(0, 0.4)))


def test_a_few_crashes(tmp_path: Path) -> None:
    crash(tmp_path, 4)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_crashes(tmp_path: Path) -> None:
    crash(tmp_path, 60)
