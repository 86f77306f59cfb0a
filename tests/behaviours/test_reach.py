"""Number of questions of the suite, and the brokers of which they are asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.behaviours.conftest import TARGETS

pytestmark = pytest.mark.once

QUESTIONS = 1000
"""The least number; the table of docs/rabbitmq-versions.md needs 150."""


def test_each_question_is_asked_of_all_versions_and_all_profiles() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "BEHAVIOURS_OF"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", Path(__file__).parent]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    asked: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        found = next((each for each in TARGETS if f"[{each}" in line), None)
        if found is not None:
            asked[line.replace(f"[{found}", "[", 1)] += 1
    assert set(asked.values()) == {len(TARGETS)}
    assert len(asked) >= QUESTIONS
