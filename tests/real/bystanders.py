"""Bystanders in a process of their own, so that what they measure does not include the turns of the test's threads.

    python -m tests.real.bystanders PORT…

Each has a port, which is that of the proxy or of a broker: what those of brokers wait, the machine takes. Prints a line
once all of them publish; when its standard input ends, the faults, and by port the times and the waits, as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingConnection

from tests.real.bystander import Bystander, percentile
from tests.real.poll import until
from tests.real.rabbitmq import ENDS_WITH_US

ROOT = Path(__file__).parents[2]


class Bystanders:
    """The process, from when all of its clients publish; `end` ends it, and has the result."""

    def __init__(self, *ports: int) -> None:
        command = [*ENDS_WITH_US, sys.executable, "-m", "tests.real.bystanders", *map(str, ports)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._waits: list[tuple[int, float, float]] = []
        self.faults: list[str] = []

    def end(self) -> None:
        """End the clients, and read what they noted."""
        output, errors = self._process.communicate(timeout=60)
        assert not self._process.returncode, errors
        result = json.loads(output)
        self.faults, self._waits = result["faults"], result["waits"]

    def close(self) -> None:
        """End the process, if it has not ended."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    def p99(self, begin: float, end: float, *ports: int) -> float:
        """The wait, in milliseconds, that 99 % of the confirms between two times of `time.monotonic` do not exceed."""
        return percentile([[wait for port, at, wait in self._waits if port in ports and begin <= at <= end]], 0.99)


def connect(port: int) -> BlockingConnection:
    return BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


def main(*ports: int) -> None:
    bystanders = [Bystander(partial(connect, port), place) for place, port in enumerate(ports)]
    for each in bystanders:
        each.start()
    until(lambda: all(each.seconds or each.faults for each in bystanders), "the bystanders to publish")
    sys.stdout.write("publishing\n")
    sys.stdout.flush()
    sys.stdin.read()
    for each in bystanders:
        each.is_over.set()
    for each in bystanders:
        each.join(30)
    waits = [
        (port, at, wait)
        for port, each in zip(ports, bystanders, strict=True)
        for at, wait in zip(each.times, each.seconds, strict=True)
    ]
    json.dump({"faults": [fault for each in bystanders for fault in each.faults], "waits": waits}, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
