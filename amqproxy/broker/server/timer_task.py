"""Task that runs the model's due timers and reports memory and disk use to it."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import trio

from amqproxy.broker.broker import Broker
from amqproxy.broker.server import machine_resources
from amqproxy.broker.server.clock import current_time, trio_time
from amqproxy.broker.server.send_scheduler import SendScheduler
from amqproxy.broker.storage.page_file import PageFiles
from amqproxy.process.log import logger
from amqproxy.process.malloc_trim import give_back
from amqproxy.process.supervision import contained

MEASURING_INTERVAL = 1.0
"""Seconds between two measurements of memory and disk."""

LEAST_SLEEP = 0.005
"""Minimum seconds between two runs of the due timers."""


class TimerTask:
    """Task that sleeps until a timer of `broker` is due; the free disk space of `directory` is measured.

    Paged-out messages go to the system's directory for temporary files, unless the broker has a page store.
    """

    def __init__(self, broker: Broker, send_scheduler: SendScheduler, directory: Path | None = None) -> None:
        self._broker = broker
        self._send_scheduler = send_scheduler
        self._directory = directory
        self._sleep = trio.CancelScope()
        self._earliest = 0.0
        self._next_look = 0.0
        self._base = machine_resources.memory_in_use()
        broker.sooner = self._wake_by
        broker.work.wake = self._wake
        if broker.paging.page_store is None:
            try:
                broker.paging.page_store = PageFiles(Path(tempfile.gettempdir()))
            except FileNotFoundError:
                reason = "no directory for temporary files can be written: set TMPDIR, or the broker's data directory"
                logger().warning("messages stay in memory", reason=reason)
            broker.paging.relieved = give_back

    async def run(self) -> None:
        """Keep the time, until cancelled."""
        while True:
            now = current_time()
            deadline = now + MEASURING_INTERVAL
            with contained("what was due failed"):
                deadline = self._turn(now)
            if deadline <= now:  # the remaining due work continues in the next turn
                await trio.lowlevel.checkpoint()
                continue
            self._earliest = trio_time(now) + LEAST_SLEEP
            with trio.CancelScope(
                deadline=max(self._earliest, trio_time(min(self._next_look, deadline)))
            ) as self._sleep:
                await trio.sleep_forever()

    def _turn(self, now: float) -> float:
        """Run the due timers and send the resulting output; return the time of the next one."""
        self._send_scheduler.hold()
        self._broker.work.quantum.begin()
        if now >= self._next_look:
            self._next_look = now + MEASURING_INTERVAL
            with contained("memory and disk not measured"):
                self._measure(now)
        with contained("what was due failed"):
            self._broker.tick(now)
        self._send_scheduler.flush(now)
        return self._broker.next_deadline()

    def _wake_by(self, when: float) -> None:
        self._sleep.deadline = min(self._sleep.deadline, max(self._earliest, trio_time(when)))

    def _wake(self) -> None:
        """Wake the task at once, because unfinished work was added."""
        self._sleep.deadline = -math.inf

    def _measure(self, now: float) -> None:
        disk_free = None if self._directory is None else machine_resources.disk_free(self._directory)
        memory, limit = machine_resources.memory_in_use(), self._broker.memory_limit
        if memory is not None and limit is not None and memory > limit:
            give_back()
            memory = machine_resources.memory_in_use()
        self._broker.check_limits(now, memory=memory, disk_free=disk_free, base=self._base)
