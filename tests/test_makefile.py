"""The Makefile, where a machine has less than its author's."""

import subprocess
from pathlib import Path

from tests.real.require import require

ROOT = Path(__file__).parents[1]


def test_a_python_that_is_installed_first_makes_the_environment() -> None:
    """Where there is none yet, PYTHON is empty when make expands the recipe."""
    command = [require("make"), "--dry-run", "PYTHON=", "SYSTEM_PYTHON=", "none/bin/python"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert '"/usr/bin/python3" -m venv none' in done.stdout
