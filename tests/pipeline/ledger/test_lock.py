"""Of two drivers one is refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from amqproxy.pipeline.ledger import Ledger, Occupied

pytestmark = pytest.mark.once

HOLD = """
import sys, time
from amqproxy.pipeline.ledger import Ledger
with Ledger(sys.argv[1]):
    print("held", flush=True)
    time.sleep(100)
"""


def test_of_two_drivers_one_is_refused_until_the_other_is_dead(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(Occupied, match=rf"is written by process {other.pid} on \S+, since 20.*: wait for it"),
            Ledger(str(tmp_path)),
        ):
            pass
        other.send_signal(signal.SIGKILL)
        other.wait(10)
        with Ledger(str(tmp_path)) as held:
            assert held.contents.batch == 0
    finally:
        other.kill()
        other.communicate()
