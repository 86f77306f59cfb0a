"""A few rounds in every run, always the same ones, and every site in the nightly one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*options: str, timeout: float) -> None:
    """Rounds in a separate process, which can change the sources it imports. A failure is reported with its seed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.chaos.run", *options],
        cwd=ROOT,
        env={**os.environ, "AMQPROXY_PURE": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_only_the_victim_notices_what_fails() -> None:
    run("--rounds", "15", "--seed", "1", timeout=170)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_other_client_notices_wherever_it_fails() -> None:
    run("--rounds", "0", timeout=7100)
