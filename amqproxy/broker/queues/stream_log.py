"""Messages of a stream by their offset: the newest are in memory, and the rest on the disk.

A message log, if there is one, has all of them, each at the position after its offset, and with its arrival time in
place of its expiration. Without one, they go to a page file when memory gets short.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator

from amqproxy.broker.message import Message
from amqproxy.broker.queues.paged_messages import MESSAGE_COST, READ_AHEAD, UNREADABLE, Fetch, PageStore
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.storage.message_log import MessageLog
from amqproxy.broker.storage.packing import DAMAGED, PackedMessage
from amqproxy.broker.storage.page_file import PageBlock

RUN_MESSAGES = 1024
RUN_BYTES = 256 * 1024
"""Messages or bytes that leave memory at once, whichever comes first."""

TAIL_BYTES = 4 * 1024 * 1024
"""Bytes that may stay in memory of messages that the disk has."""

RUNS_READ = 16
"""Number of runs that were read back last, and are kept for other readers."""


class MessageRun:
    """Successive messages in memory with their arrival times. `batch` is the journal batch of the last one."""

    __slots__ = ("batch", "bytes_in_memory", "first", "messages", "times")

    def __init__(self, first: int) -> None:
        self.first = first
        self.messages: list[Message] = []
        self.times: list[float] = []
        self.bytes_in_memory = 0
        self.batch = 0

    @property
    def end(self) -> int:
        return self.first + len(self.messages)

    def add(self, message: Message, time: float) -> None:
        self.messages.append(message)
        self.times.append(time)
        self.bytes_in_memory += len(message.body) + MESSAGE_COST


class StreamLog:
    """Messages at the offsets from `first` up to `next`, which the next one gets. Times (seconds) never go down.

    `fetch` reads the content of the message log.
    """

    __slots__ = ("_fetch", "_last_time", "_message_log", "_paged_out", "_read", "_tail", "_tail_bytes", "first", "next")

    def __init__(self, message_log: MessageLog | None = None, fetch: Fetch | None = None) -> None:
        self._message_log = message_log
        self._fetch = fetch
        self.next = 0 if message_log is None else message_log.last
        self.first = self.next if message_log is None else self.next - message_log.messages
        self._last_time: float | None = None
        self._paged_out: list[tuple[PageBlock, PageStore]] = []
        self._tail: deque[MessageRun] = deque((MessageRun(self.next),))
        self._tail_bytes = 0
        self._read: deque[MessageRun] = deque(maxlen=RUNS_READ)

    def __iter__(self) -> Iterator[Message]:
        offset = self.first
        while offset < self.next:
            run = self.run(offset)
            yield from (each for each in run.messages[offset - run.first :] if each is not DAMAGED)
            offset = run.end

    @property
    def last_time(self) -> float:
        """Arrival time of the last message; there must be one."""
        if self._last_time is None:
            self._last_time = self.time(self.next - 1)
        return self._last_time

    # --- writing

    def append(self, message: Message, now: float, ticket: DurabilityTicket | None = None) -> None:
        """Add a message at the end."""
        if self.first < self.next:
            now = max(now, self.last_time)
        self._last_time = now
        run = self._tail[-1]
        if run.bytes_in_memory >= RUN_BYTES or len(run.messages) >= RUN_MESSAGES:
            run = MessageRun(self.next)
            self._tail.append(run)
            if self._message_log is not None and self._tail_bytes > TAIL_BYTES:
                self._forget_what_is_kept(TAIL_BYTES)
        run.add(message, now)
        self._tail_bytes += len(message.body) + MESSAGE_COST
        self.next += 1
        if self._message_log is not None:
            self._message_log.enqueued(self.next, message, now, ticket)
            run.batch = self._message_log.journal.number

    def trim(self, first: int, body_bytes: int) -> None:
        """Drop all messages before an offset; the bodies of the rest have `body_bytes`."""
        self.first = first
        while len(self._tail) > 1 and self._tail[0].end <= first:
            self._tail_bytes -= self._tail.popleft().bytes_in_memory
        while self._paged_out and self._paged_out[0][0].last < first:
            block, page_store = self._paged_out.pop(0)
            page_store.drop(block)
        if self._message_log is not None:
            self._message_log.trimmed(first, self.next - first, body_bytes)

    def discard(self) -> None:
        """Drop the blocks on the disk: the stream is deleted."""
        for block, page_store in self._paged_out:
            page_store.drop(block)
        self._paged_out.clear()

    # --- paging

    def forget_what_was_read(self) -> None:
        """Drop the runs that were read back: no consumer is left for them."""
        self._read.clear()

    @property
    def bytes_in_memory(self) -> int:
        return self._tail_bytes + sum(run.bytes_in_memory for run in self._read)

    def page_out(self, page_store: PageStore, most: int) -> int:
        """Leave about `most` bytes of the older messages to the disk alone; return the bytes of memory that this frees.

        `OSError` if the disk does not take them.
        """
        before = self.bytes_in_memory
        self._read.clear()
        if self._message_log is not None:
            self._forget_what_is_kept(max(0, before - most))
        while self._message_log is None and len(self._tail) > 1 and before - self.bytes_in_memory < most:
            run = self._tail[0]
            times = zip(run.times, run.messages, strict=True)
            rows = [PackedMessage(run.first + place, time, 0, message) for place, (time, message) in enumerate(times)]
            self._paged_out.append((page_store.put(rows), page_store))
            self._tail.popleft()
            self._tail_bytes -= run.bytes_in_memory
        return before - self.bytes_in_memory

    def _forget_what_is_kept(self, limit: int) -> None:
        """Remove committed messages from memory, down to `limit` bytes or the newest run."""
        assert self._message_log is not None
        committed = self._message_log.journal.last_committed
        refused = self._message_log.refused
        while self._tail_bytes > limit and len(self._tail) > 1 and self._tail[0].batch <= committed:
            if refused and any(self._tail[0].first < position <= self._tail[0].end for position in refused):
                break
            self._tail_bytes -= self._tail.popleft().bytes_in_memory

    # --- reading

    def run(self, offset: int, most: int = READ_AHEAD) -> MessageRun:
        """Return a run of messages with the one at an offset, which must exist; `most` is how many are wanted."""
        found = self._in_memory(offset)
        if found is None:
            found = self._read_back(offset, most)
            self._read.append(found)
        return found

    def time(self, offset: int) -> float:
        """Return the arrival time of the message at an offset."""
        run = self._in_memory(offset) or self._read_back(offset, 1)
        return run.times[offset - run.first]

    def offset_at(self, when: float, first: int) -> int:
        """Return the first offset, from `first` on, of a message that arrived at that time or later."""
        return first + bisect_left(range(first, self.next), when, key=self.time)

    def _in_memory(self, offset: int) -> MessageRun | None:
        if offset >= self._tail[0].first:
            return self._tail[bisect_right(self._tail, offset, key=lambda run: run.first) - 1]
        return next((run for run in self._read if run.first <= offset < run.end), None)

    def _read_back(self, offset: int, most: int) -> MessageRun:
        if self._message_log is None:
            block, page_store = self._paged_out[
                bisect_right(self._paged_out, offset, key=lambda each: each[0].first) - 1
            ]
            run = MessageRun(block.first)
            try:
                rows = page_store.read(block)
            except UNREADABLE:
                self._fill(run, block.last + 1, 0.0)
                return run
        else:
            assert self._fetch is not None
            run = MessageRun(offset)
            rows = list(self._fetch(self._message_log.number, offset + 1, min(most, READ_AHEAD)))
        for row in rows:
            self._fill(run, row.position - self._shift, row.expires_at)
            run.add(row.message, row.expires_at)
        if not run.messages:
            self._fill(run, min(offset + most, self.next), self._last_time or 0.0)
        return run

    @property
    def _shift(self) -> int:
        """Difference between a row's position and its offset."""
        return 0 if self._message_log is None else 1

    def _fill(self, run: MessageRun, end: int, time: float) -> None:
        """Fill a gap with damaged messages, so that all others stay at their offsets."""
        while run.end < end:
            run.add(DAMAGED, time)
