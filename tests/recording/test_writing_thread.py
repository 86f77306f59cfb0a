"""The thread that writes: it does what is due, however much there is to write."""

import threading

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.recording.entry import Entry
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.writing_thread import BATCH, WritingThread
from amqproxy.taps.note import NOTHING
from tests.recording.recorded import SESSION

FULL = Entry(0, SESSION, CLIENT, bytes(BATCH), NOTHING)


class Writer:
    """Adds as much as it writes, so that there is no end to it."""

    def __init__(self, queue: EntryQueue) -> None:
        self._queue = queue
        self.thread: WritingThread
        self.ticks = 0
        self.calls: list[str] = []

    def open(self) -> None:
        self.calls.append("open")

    def write(self, entries: list[Entry]) -> None:
        if self.ticks < 3:
            self._queue.add(FULL)

    def tick(self) -> None:
        self.ticks += 1
        if self.ticks == 3:
            self.thread.stop()

    def close(self) -> None:
        self.calls.append("close")


def test_what_is_due_is_done_where_there_always_is_more_to_write() -> None:
    queue = EntryQueue(100 * BATCH)
    writer = Writer(queue)
    opened: list[Exception | None] = []
    ended = threading.Event()
    writer.thread = WritingThread(
        queue, writer, opened=opened.append, ended=ended.set, drained=lambda: None, count_lost=lambda frames: None
    )
    queue.add(FULL)
    queue.add(FULL)
    writer.thread.start()
    writer.thread.wake()
    assert ended.wait(60)
    assert (opened, writer.calls) == ([None], ["open", "close"])
    assert queue.size == 0
