"""The example of docs/testing.md is run as a user runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders"


@pytest.mark.slow
def test_the_example_passes() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    result = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "5 passed" in result.stdout
