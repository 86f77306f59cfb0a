"""The suites of RabbitMQ's clients: each test that passes at RabbitMQ 4.3 passes at the integrated broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.management.suites import go_suite, rust_suites
from tests.management.suites.expected import EXPECTED
from tests.real.rabbitmq_installation import installation
from tests.real.require import require

pytestmark = [pytest.mark.real, pytest.mark.once, pytest.mark.suites]

DEADLINE = 3600.0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have a network namespace, for the suites' fixed ports")
@pytest.mark.timeout(2 * DEADLINE)
@pytest.mark.parametrize("suite", EXPECTED)
def test_what_passes_at_rabbitmq_passes_here(suite: str, tmp_path: Path) -> None:
    installation("4.3")
    if suite == "rabbit-hole":
        go_suite.built()
    else:
        rust_suites.built(suite)
    with ThreadPoolExecutor() as pool:
        theirs, ours = pool.map(lambda peer: _results(peer, suite, tmp_path / peer), ("rabbitmq", "own"))
    assert "pass" in theirs.values()
    faults = {name: result for name, result in ours.items() if result != theirs[name] == "pass"}
    unexpected = {name: result for name, result in faults.items() if name not in EXPECTED[suite]}
    assert not unexpected
    assert faults.keys() == EXPECTED[suite].keys(), "tests that are listed as exceptions pass here, or fail at both"


def _results(peer: str, suite: str, directory: Path) -> dict[str, str]:
    directory.mkdir()
    unshare = require("unshare", package="util-linux")
    command = [unshare, "--net", sys.executable, "-m", "tests.management.suites.run", peer, suite, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    results: dict[str, str] = json.loads(done.stdout)
    return results
