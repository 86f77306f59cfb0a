"""A client that nothing should happen to, while something happens to others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import AMQPError


class Bystander(threading.Thread):
    """A client that publishes 50 times a second, and notes when, and how long each confirm takes."""

    def __init__(self, connect: Callable[[], BlockingConnection], number: int) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._queue = f"bystander.{number}"
        self.times: list[float] = []
        self.seconds: list[float] = []
        self.faults: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            with self._connect() as connection:
                channel = connection.channel()
                channel.queue_declare(self._queue, exclusive=True)
                channel.confirm_delivery()
                while not self.is_over.wait(0.02):
                    began = time.monotonic()
                    channel.basic_publish("", self._queue, b"x", mandatory=True)
                    self.times.append(began)
                    self.seconds.append(time.monotonic() - began)
        except (AMQPError, OSError) as error:
            self.faults.append(repr(error))


def percentile(waits: Sequence[Sequence[float]], part: float) -> float:
    """The wait, in milliseconds, that no more than the rest of all exceeds."""
    ordered = sorted(each for some in waits for each in some)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e3
