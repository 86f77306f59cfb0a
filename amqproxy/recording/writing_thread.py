"""The thread that writes a recording, so that no session waits for a slow or failed disk unless configured to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from amqproxy.process.supervision import describe, report
from amqproxy.recording.entry import Entry
from amqproxy.recording.entry_queue import BATCH, EntryQueue

POLL = 0.1
"""Longest time in seconds that an entry waits to be written."""


class RecordingWriter(Protocol):
    """The destination of the entries, called from the writing thread only."""

    def open(self) -> None:
        """Open the recording; `OSError` if that fails."""

    def write(self, entries: list[Entry]) -> None:
        """Write entries; the writer itself counts those that it cannot write."""

    def tick(self) -> None:
        """Run periodic work: sync, rotate the file, retry a failed disk. Called several times a second."""

    def close(self) -> None:
        """Complete the last file."""


class WritingThread:
    """Opens `writer` and passes it the entries of `queue` until stopped; the event loop waits for it only by choice.

    All callbacks run in this thread. `opened` receives the exception that prevented opening, or None; `ended` is called
    once the writer is closed. `drained` is called after a batch whenever at least half of the queue is free.
    `count_lost` receives the number of frames that were not written, either because of an internal error, which is then
    the `failure`, or because the thread was abandoned.
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
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Write soon, because much is waiting; otherwise entries are written within POLL seconds."""
        if not self._is_due.is_set():
            self._is_due.set()

    def stop(self) -> None:
        """Write the waiting entries, complete the last file, and end the thread."""
        self._is_stopping = True
        self._is_due.set()

    def abandon(self) -> None:
        """Give up on a disk that takes too long: discard the waiting entries, and end as soon as the disk responds."""
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
                self._drained()  # again, for a session that has checked the queue before
            self._contained(self._writer.tick)
        self._write_waiting()

    def _write_waiting(self) -> None:
        """Write the waiting entries; a remainder of less than a batch waits for more, or for the next POLL."""
        queue = self._queue
        while entries := queue.take(BATCH):
            if self._is_abandoned or not self._contained(self._writer.write, entries):
                self._count_lost(sum(entry.frames for entry in entries))
            queue.done(entries)
            if queue.size <= queue.memory // 2:
                self._drained()
            self._contained(self._writer.tick)
            if queue.size < queue.batch and not self._is_stopping:
                break

    def _contained(self, do: Callable[..., None], *given: object) -> bool:
        """Call `do` and return whether it succeeded; the first unexpected exception is logged."""
        try:
            do(*given)
        except Exception as failure:  # noqa: BLE001 - one door
            if not self.failure:
                self.failure = describe(failure)
                report("recording failed", failure)
            return False
        return True
