"""amqproxy with memory as full as a test needs: `python -m tests.real.full FILE ARGUMENTS…`.

Its broker holds itself to be out of memory for as long as FILE is there, and is otherwise what it always is.
"""

import sys
from pathlib import Path

from amqproxy import cli
from amqproxy.broker import Broker
from amqproxy.broker.server import machine_resources, timer_task

FULL = 1 << 62


def main(file: Path, arguments: list[str]) -> None:
    machine_resources.memory_in_use = lambda: FULL if file.exists() else 0
    Broker._costs = lambda broker: iter([machine_resources.memory_in_use() or 0])  # type: ignore[method-assign]
    timer_task.MEASURING_INTERVAL = 0.05
    sys.argv[1:] = arguments
    cli.main()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
