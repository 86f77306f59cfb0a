"""The Makefile: where a machine has less than its author's, and what its runs of the tests leave out."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.real.require import require

ROOT = Path(__file__).parents[1]


def dry_run(*arguments: str) -> str:
    """What make would do."""
    command = [require("make"), "--dry-run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_python_that_is_installed_first_makes_the_environment() -> None:
    """Where there is none yet, PYTHON is empty when make expands the recipe."""
    done = dry_run("PYTHON=", "SYSTEM_PYTHON=", "none/bin/python")
    assert '"/usr/bin/python3" -m venv none' in done


def test_the_plain_run_does_not_test_rabbitmq_by_itself() -> None:
    """It took minutes: what the Makefile had asked for, the tests no longer understood."""
    files = ("tests/behaviours/test_acks.py", "tests/real/test_rare.py")
    wanted = " ".join(["--collect-only -q -p no:cacheprovider", *files])
    found = re.search(
        r"^(AMQPROXY_PURE=1 .*?)\S+ -m pytest (.*)", dry_run("test-plain", f"PYTEST={wanted}"), re.MULTILINE
    )
    assert found
    environment = os.environ | dict(setting.split("=", 1) for setting in shlex.split(found[1]))
    command = [sys.executable, "-m", "pytest", *shlex.split(found[2])]
    collected = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert "test_acks.py" in collected
    assert "test_through_the_proxy" in collected
    assert "[rabbitmq" not in collected
    assert "straight_to_rabbitmq" not in collected


def test_real_clients_meet_the_version_that_is_asked_for() -> None:
    assert "RABBITMQ=4.3;" in dry_run("test-plain")
    assert "RABBITMQ=4.3 " in dry_run("test-rabbitmq4")
    assert "RABBITMQ=4.0 " in dry_run("test-rabbitmq4", "VERSION=4.0")
