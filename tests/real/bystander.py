"""A client that nothing should happen to, while something happens to others."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from pika.exceptions import AMQPError

from tests.real.fleet import Fleet


class Bystander(threading.Thread):
    """A client that publishes 50 times a second, and notes how long each confirm takes."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        super().__init__(daemon=True)
        self._fleet = fleet
        self._queue = f"bystander.{number}"
        self.seconds: list[float] = []
        self.faults: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            with self._fleet.client() as connection:
                channel = connection.channel()
                channel.queue_declare(self._queue, exclusive=True)
                channel.confirm_delivery()
                while not self.is_over.wait(0.02):
                    began = time.perf_counter()
                    channel.basic_publish("", self._queue, b"x", mandatory=True)
                    self.seconds.append(time.perf_counter() - began)
        except (AMQPError, OSError) as error:
            self.faults.append(repr(error))


def percentile(waits: Sequence[Sequence[float]], part: float) -> float:
    """The wait, in milliseconds, that no more than the rest of all exceeds."""
    ordered = sorted(each for some in waits for each in some)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e3
