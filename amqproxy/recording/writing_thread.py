"""The thread that writes a recording: no session waits for a disk that is slow, or gone, unless that is wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from amqproxy.amqp091.frame import count_frames
from amqproxy.process.supervision import describe, report
from amqproxy.recording.entry import Entry
from amqproxy.recording.entry_queue import BATCH, EntryQueue

POLL = 0.1
"""Seconds that entries wait at most until they are written."""


class RecordingWriter(Protocol):
    """What the thread writes to. Only that thread calls it."""

    def open(self) -> None:
        """Begin. `OSError` where that cannot be."""

    def write(self, entries: list[Entry]) -> None:
        """Write what was shown; what cannot be written is counted by the writer itself."""

    def tick(self) -> None:
        """Do what is due: sync, begin another file, try a disk again. Called several times a second."""

    def close(self) -> None:
        """Complete the last file."""


class WritingThread:
    """Opens `writer`, and gives it entries from `queue` until it is stopped. The loop waits for it only by choice.

    All that is given is called in that thread. `opened` gets what has kept it from beginning, or None; `ended` is
    called once it has closed the writer. `drained` is called whenever at least half of the queue is free after a
    batch. `count_lost` takes the number of frames that are not written: by a fault of our own, which is the `failure`
    then, or since the thread was abandoned.
    """

    def __init__(
        self,
        queue: EntryQueue,
        writer: RecordingWriter,
        *,
        opened: Callable[[Exception | None], None],
        ended: Callable[[], None],
        drained: Callable[[], None],
        count_lost: Callable[[int], None],
    ) -> None:
        self._queue = queue
        self._writer = writer
        self._opened = opened
        self._ended = ended
        self._drained = drained
        self._count_lost = count_lost
        self._is_due = threading.Event()
        self._is_stopping = False
        self._is_abandoned = False
        self.failure = ""
        self._thread = threading.Thread(target=self._run, name="amqproxy-recording", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def wake(self) -> None:
        """Write soon: much is waiting. What is little is written within POLL seconds."""
        if not self._is_due.is_set():
            self._is_due.set()

    def stop(self) -> None:
        """Write what waits, complete the last file, and end."""
        self._is_stopping = True
        self._is_due.set()

    def abandon(self) -> None:
        """The disk takes too long: do not write what still waits, and end as soon as it lets us."""
        self._is_abandoned = True
        self.stop()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            self._writer.open()
        except Exception as error:  # noqa: BLE001 - for the caller that wants it open
            failure = error
        self._opened(failure)
        if failure is None:
            self._write_until_stopped()
            self._contained(self._writer.close)
        self._ended()

    def _write_until_stopped(self) -> None:
        while not self._is_stopping:
            self._is_due.wait(POLL)
            self._is_due.clear()
            self._write_waiting()
            if self._queue.size <= self._queue.memory // 2:
                self._drained()  # again, for a session that has looked at the queue before that
            self._contained(self._writer.tick)
        self._write_waiting()

    def _write_waiting(self) -> None:
        """Write all that waits; but a rest that is less than a batch waits for more, or for the next POLL."""
        queue = self._queue
        while entries := queue.take(BATCH):
            if self._is_abandoned or not self._contained(self._writer.write, entries):
                self._count_lost(sum(count_frames(entry.data) for entry in entries))
            queue.done(entries)
            if queue.size <= queue.memory // 2:
                self._drained()
            self._contained(self._writer.tick)
            if queue.size < queue.batch and not self._is_stopping:
                break

    def _contained(self, do: Callable[..., None], *given: object) -> bool:
        """Call what may fail by a fault of our own; the first one is logged."""
        try:
            do(*given)
        except Exception as failure:  # noqa: BLE001 - one door
            if not self.failure:
                self.failure = describe(failure)
                report("recording failed", failure)
            return False
        return True
