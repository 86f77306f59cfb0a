"""Records the captures of `captures/upgrade`: `python -m tests.readiness.record_upgrades [NAME…]`.

Each program runs twice: with the broker that it is recorded with, where it must work, and with RabbitMQ 4.3 that denies
transient queues, where it must fail if it is said to break, and work otherwise.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
from pathlib import Path

from tests.capture.record_captures import recorded
from tests.readiness.upgrade_programs import FOLDER, PROGRAMS, Program
from tests.real.clients import Broker
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import SYSTEM, installation

DENIED = {"deprecated_features.permit.transient_nonexcl_queues": "false"}


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        old, new = Path(directory, "3.10"), Path(directory, "4.3")
        old.mkdir()
        new.mkdir()
        with running(old, SYSTEM) as oldest, running(new, installation("4.3"), DENIED) as newest:
            nodes = {"3.10": oldest, "4.3": newest}
            for each in PROGRAMS:
                if not names or each.name in names:
                    _record(each, nodes[each.version], Path(directory))
                    _check(each, newest)


def _record(program: Program, node: RabbitMQ, directory: Path) -> None:
    broker = Broker(node.port, node.ctl)
    capture = recorded(node.port, lambda: program.play(broker), directory / f"{program.name}.pcapng")
    data = gzip.compress(capture, mtime=0)
    FOLDER.joinpath(f"{program.name}.pcapng.gz").write_bytes(data)
    sys.stdout.write(f"{program.name}: {len(data)} bytes\n")
    sys.stdout.flush()


def _check(program: Program, node: RabbitMQ) -> None:
    """Raise unless the program breaks on RabbitMQ 4.3 exactly if it is said to."""
    began = time.monotonic()
    try:
        program.play(Broker(node.port, node.ctl))
    except Exception as error:
        if not program.breaks:
            raise
        reason = " ".join(f"{type(error).__name__} {error}".split())[:200]
        sys.stdout.write(f"  breaks after {time.monotonic() - began:.1f} s: {reason}\n")
    else:
        if program.breaks:
            raise AssertionError(f"{program} works with RabbitMQ 4.3")


if __name__ == "__main__":
    main(sys.argv[1:])
