"""The received bytes of one direction of a connection, until they are complete frames. This module may be compiled."""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

from amqproxy.compiled.frame_tally import FrameTally


@cython.auto_pickle(True)
@cython.cclass
class FrameInput:
    """Base class of frame readers: accepts bytes in any division, and keeps those of an incomplete frame.

    After `feed`, `taken` is all bytes of the complete frames found by it, in one piece: the input object itself if
    possible. `error` is the error that ended reading; the frames before it have been returned, and further input raises
    it. `frames` is the number of complete frames.

    With a `quantum`, no `feed` returns many more frames than that: it `is_paused` then, and `resume` continues.

    Frames have copies of the input, small ones sharing a piece of some hundred bytes. Set `zero_copy` if frames are
    short-lived: then they share the input, which lives as long as any of them, and only accessed parts are copied.

    Subclasses implement `_scan`. It returns with `error` set, or `is_paused`, or with the number of bytes that are
    `_missing` from the incomplete frame at the end.
    """

    def __init__(self, tally: FrameTally, offset: int) -> None:
        self.tally = tally
        self.offset = offset
        self.frames = self._frames_before = 0
        self._taken: bytes | memoryview | None = None
        self._head = b""
        self._data = b""
        self._refused = b""
        self._start = self._end = 0
        self.error: Any = None
        self.zero_copy = False
        self.quantum = 0
        self.is_paused = False
        self._tail: bytearray | None = None
        self._missing = 0

    def want(self, methods: bytes, *, content: bool) -> None:
        """Select frames to return: `methods` has a 1 at the index of each wanted method; `content` selects others."""
        self._wants = methods
        self._wants_content = content

    def skip(self, size: int, frames: int = 0) -> None:
        """Add bytes that were read elsewhere, such as a protocol header, to `offset`, and their complete frames."""
        self.offset += size
        self.frames += frames

    @property
    def held(self) -> bytes:
        """Bytes of an incomplete frame."""
        return b"" if self._tail is None else bytes(self._tail)

    @property
    def held_size(self) -> int:
        """Number of bytes of an incomplete frame."""
        return 0 if self._tail is None else len(self._tail)

    @cython.ccall
    def feed(self, data: bytes) -> list[Any]:
        """Process the next bytes; return the wanted frames that are now complete.

        If it `is_paused` afterwards, the next wanted frame and everything after it have not been processed.
        """
        self._check()
        frames: list[Any] = []
        if self.is_paused:
            self.is_paused = False
            data = self._data[self._end :] + data
        length: cython.Py_ssize_t = len(data)
        start: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        self._begin()
        self._data = data
        tail = self._tail
        # A frame whose first part came earlier is assembled separately, so that the rest can stay in place.
        while tail is not None:
            if length - start < self._missing:
                tail += memoryview(data)[start:]
                self._missing -= length - start
                self._start = self._end = length
                return frames
            tail += memoryview(data)[start : start + self._missing]
            start += self._missing
            self._head = bytes(tail)
            end = self._scan(self._head, 0, len(self._head), frames)
            self.offset += end
            if end == 0 and self.error is None:
                self._head = b""  # its length is known only now
                continue
            self._tail = tail = None
        self._start = self._end = start
        if self.error is None:
            self._scan_on(frames)
        else:
            self._refused = self._head[end:]
            self._head = self._head[:end]
            self._refused += data[self._end :]
        return frames

    @cython.ccall
    def resume(self) -> list[Any]:
        """Return the next wanted frames of the last input; empty unless it is paused."""
        self._check()
        frames: list[Any] = []
        self._begin()
        self._start = self._end
        if self.is_paused:
            self.is_paused = False
            self._scan_on(frames)
        return frames

    @cython.cfunc
    def _begin(self) -> object:
        """Forget what the last call has taken."""
        self._frames_before = self.frames
        self._head = b""
        self._taken = None
        return None

    @cython.cfunc
    def _scan_on(self, frames: list) -> object:  # type: ignore[type-arg]
        """Continue with the input from `_end` on, up to the end or a pause."""
        data: bytes = self._data
        start: cython.Py_ssize_t = self._end
        length: cython.Py_ssize_t = len(data)
        end: cython.Py_ssize_t = self._scan(data, start, length, frames)
        self.offset += end - start
        self._end = end
        if self.error is not None:
            self._refused += data[end:]
        elif end < length and not self.is_paused:
            self._tail = bytearray(memoryview(data)[end:])
        return None

    def _check(self) -> None:
        """Raise again the error that has ended reading."""
        if self.error is not None:
            raise self.error

    @property
    def taken(self) -> bytes | memoryview:
        if self._taken is None:
            if self._head:
                self._taken = b"".join((self._head, memoryview(self._data)[self._start : self._end]))
            elif self._start:
                self._taken = b"" if self._start == self._end else memoryview(self._data)[self._start : self._end]
            elif self._end == len(self._data):
                self._taken = self._data
            else:
                self._taken = memoryview(self._data)[: self._end]
        return self._taken

    @property
    def taken_from(self) -> int:
        """Stream offset of `taken`."""
        return self.offset - len(self._head) - (self._end - self._start)

    @property
    def taken_frames(self) -> int:
        """Number of frames in `taken`."""
        return self.frames - self._frames_before

    @cython.ccall
    def between(self, start: cython.longlong, end: cython.longlong) -> bytes | memoryview:
        """Return the bytes to send from one offset to another, both frame boundaries in `taken`.

        Must be called in order.
        """
        origin: cython.longlong = self.taken_from
        taken = self.taken
        return taken if end - start == len(taken) else taken[start - origin : end - origin]

    @property
    def refused(self) -> bytes:
        """Input from the frame that ended reading on."""
        return self._refused

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _scan(
        self,
        data: bytes,
        start: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        frames: list,  # type: ignore[type-arg]
    ) -> cython.Py_ssize_t:
        """Process the complete frames in `data` from `start` on; return the place where they end."""
        return start
