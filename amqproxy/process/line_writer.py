"""Lines written to a file by a separate thread: a caller never waits, and never fails.

The output may be a full disk, a pipe that is not read, or a pipe whose reader is gone. Lines that it does not accept
are dropped and counted; once it can write again, a line reports their number.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TextIO

MOST_LINES = 10_000
"""Maximum number of waiting lines."""

MOST_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes of waiting lines."""

LONGEST_LINE = 64 * 1024
"""Longest line in bytes; the rest of it is cut off."""

PIECE = 64 * 1024
"""Bytes passed to the system at a time."""

GATHERING = 0.005
"""Seconds after a write in which lines are gathered for the next one: waking the thread for each line of many costs
more than the lines, and takes the interpreter from the caller.
"""

CUT = b" [cut]\n"

Notice = Callable[[int], str]
"""Makes the line that reports the number of dropped lines."""


class _Entry(NamedTuple):
    line: bytes
    missing: int = 1
    """Number of lines that are lost if this one is not written; for a notice, those that it reports."""
    is_notice: bool = False


class LineWriter:
    """Writes lines to `stream`, in order, from a daemon thread that starts with the first line.

    A stream without a descriptor, as in tests, is written to by its `write`. Without a stream, every line is dropped.
    """

    def __init__(
        self, stream: TextIO | None, notice: Notice, *, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES
    ) -> None:
        self.dropped = 0
        """Number of lines dropped since the beginning."""
        self._write = _writing(stream)
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._notice = notice
        self._most_lines = most_lines
        self._most_bytes = most_bytes
        self._changed = threading.Condition()  # its lock is reentrant: a finalizer may log while a line is added
        self._waiting: deque[_Entry] = deque()
        self._waiting_bytes = 0
        self._refused = 0
        """Number of lines refused for lack of room since the last queued line."""
        self._is_writing = False
        self._is_gathering = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        """Write a line, given without its end, as soon as the lines before it are written."""
        encoded = self._encoded(line)
        with self._changed:
            if self._is_closed or not self._has_room(len(encoded)):
                self.dropped += 1
                self._refused += 1
                return
            self._waiting.append(_Entry(encoded))
            self._waiting_bytes += len(encoded)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="line-writer", daemon=True)
                self._thread.start()
            if not self._is_gathering:
                self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds until all lines are written; return `False` if they are not."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._is_writing, timeout)

    def close(self, timeout: float) -> bool:
        """Like `flush`, and accept no further lines. A blocked thread is abandoned to the end of the process."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        return self.flush(timeout)

    def _has_room(self, size: int) -> bool:
        return len(self._waiting) < self._most_lines and self._waiting_bytes + size <= self._most_bytes

    def _encoded(self, line: str) -> bytes:
        encoded = line[:LONGEST_LINE].encode(self._encoding, "backslashreplace") + b"\n"
        if len(encoded) > LONGEST_LINE or len(line) > LONGEST_LINE:
            whole = encoded[: LONGEST_LINE - len(CUT)].decode(self._encoding, "ignore")  # whole characters only
            encoded = whole.encode(self._encoding) + CUT
        return encoded

    def _run(self) -> None:
        lost = 0
        """Number of lines that were not written since the last one that was."""
        is_torn = False
        """Whether the last write ended within a line."""
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                self._is_writing = True
                entries, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
                refused, self._refused = self._refused, 0
            if lost:
                entries.appendleft(self._notice_of(lost))
            if refused:
                entries.append(self._notice_of(refused))
            left, is_torn = self._written(entries, is_torn)
            lost = sum(entry.missing for entry in left)
            if left:
                with self._changed:
                    self.dropped += sum(not entry.is_notice for entry in left)
            with self._changed:
                self._is_gathering = True
                self._changed.wait_for(lambda: self._is_closed, GATHERING)
                self._is_gathering = False

    def _written(self, entries: deque[_Entry], is_torn: bool) -> tuple[deque[_Entry], bool]:
        """Write the entries; return those that could not be written, and whether the last written one is incomplete."""
        data = b"\n" * is_torn + b"".join([entry.line for entry in entries])
        done = 0
        try:
            while done < len(data):
                done += self._write(data[done : done + PIECE])
        except (OSError, ValueError):
            pass
        if done:
            is_torn = data[done - 1 : done] != b"\n"
            done -= len(data) - sum(len(entry.line) for entry in entries)
        while entries and len(entries[0].line) <= done:
            done -= len(entries.popleft().line)
        return entries, is_torn

    def _notice_of(self, count: int) -> _Entry:
        return _Entry(self._encoded(self._notice(count)), count, is_notice=True)


def _writing(stream: TextIO | None) -> Callable[[bytes], int]:
    """Return a function that writes bytes to a stream, and returns the number written."""
    if stream is None:
        return _unwritten
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):

        def write_text(data: bytes) -> int:
            stream.write(data.decode(stream.encoding or "utf-8", "replace"))
            return len(data)

        return write_text

    def write(data: bytes) -> int:
        """Bypass the stream: a thread blocked in it would hold its lock at the program's exit."""
        while True:
            try:
                return os.write(descriptor, data)
            except BlockingIOError:  # another process that shares the descriptor made it non-blocking
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll()

    return write


def _unwritten(data: bytes) -> int:
    raise OSError("there is no stream")
