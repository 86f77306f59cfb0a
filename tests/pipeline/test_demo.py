"""End to end, as a newcomer sees it: `make pipeline-demo`, whose tables have what the clients did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.require import require, require_module

pytestmark = [pytest.mark.once, pytest.mark.soak, pytest.mark.real]

DEMO = Path(__file__).parents[2] / "examples" / "pipeline_demo.py"


@pytest.mark.timeout(900)
def test_the_tables_have_what_the_clients_did() -> None:
    require("java", package="openjdk-17-jre-headless")
    require_module("pyspark", package="'amqproxy[pipeline]'")
    done = subprocess.run([sys.executable, str(DEMO), "--once"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  Analytics   http://127.0.0.1:" in done.stdout
    assert "The tables have all 60 messages, as the clients count them." in done.stdout
