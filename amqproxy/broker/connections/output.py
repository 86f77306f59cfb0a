"""Output buffer of one client: frames are encoded into it in place; on the hot path of every delivery."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp091.wire import encode_short_string
from amqproxy.broker.unsent_bytes import UnsentBytes

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

HIGH_WATER = 4 * 1024 * 1024
"""Bytes waiting to be sent above which no more messages are delivered to the client."""

LARGE = 16 * 1024
"""Size in bytes from which a body is queued as a separate piece instead of being copied into the buffer."""

PIECE = 256 * 1024
"""Maximum bytes of one piece, unless a single frame is larger."""

_LARGE = cython.declare(cython.Py_ssize_t, LARGE)
_PIECE = cython.declare(cython.Py_ssize_t, PIECE)
_HIGH_WATER = cython.declare(cython.Py_ssize_t, HIGH_WATER)

SHARE = 64 * 1024
"""Bytes that may always wait for one client, however many wait for all clients together (`unsent_bytes`)."""

_SHARE = cython.declare(cython.Py_ssize_t, SHARE)


short_strings: dict[str, bytes] = {}
"""Cache of encoded exchange names and routing keys, which repeat in most deliveries."""

MAX_SHORT_STRINGS = 65_536


def short_string(text: str) -> bytes:
    """Return `text` encoded as a short string, from the cache if possible."""
    data = short_strings.get(text)
    if data is None:
        if len(short_strings) >= MAX_SHORT_STRINGS:
            short_strings.clear()
        data = short_strings[text] = encode_short_string(text)
    return data


def _nobody() -> None:
    """Wake no task: stands in for `wake` after `close`."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _write(out: cython.p_uchar, at: cython.Py_ssize_t, data: bytes) -> cython.Py_ssize_t:
    """Write bytes at an offset and return the offset after them."""
    size: cython.Py_ssize_t = len(data)
    if not cython.compiled:
        out[at : at + size] = data
        return at + size
    p: cython.p_const_uchar = data
    memcpy(out + at, p, size)  # type: ignore[name-defined, operator]  # noqa: F821
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _write_head(
    out: cython.p_uchar, at: cython.Py_ssize_t, kind: cython.int, channel: cython.int, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write a frame's seven-byte head and return the offset after it."""
    out[at] = kind
    out[at + 1] = (channel >> 8) & 0xFF
    out[at + 2] = channel & 0xFF
    out[at + 3] = (size >> 24) & 0xFF
    out[at + 4] = (size >> 16) & 0xFF
    out[at + 5] = (size >> 8) & 0xFF
    out[at + 6] = size & 0xFF
    return at + 7


class OutputBuffer:
    """Ordered output of one client; `waiting` bytes are not confirmed as sent, and `has_room` is false above the limit.

    `frame_max` bounds the frames of a body (0: no limit). `wake` is called when output becomes available after none
    was. `all_waiting` counts the unsent bytes of all clients of the broker.
    """

    def __init__(self, frame_max: int, wake: Callable[[], None], all_waiting: UnsentBytes | None = None) -> None:
        self._all: UnsentBytes = all_waiting or UnsentBytes()
        self.frame_max = frame_max
        self.waiting = 0
        self.has_room = True
        self._taken = 0
        self._wake = wake
        self._pieces: list[bytes] = []
        self._data = bytearray()
        self._used = 0
        self._usual = 256

    def put(self, data: bytes) -> None:
        """Append bytes to the output."""
        before: cython.Py_ssize_t = self.waiting
        size: cython.Py_ssize_t = len(data)
        if size >= _LARGE:
            self._lay_aside(data)
        else:
            at: cython.Py_ssize_t = self._room_for(size)
            _write(self._data, at, data)
        self._added(before)

    def deliver(
        self,
        channel: cython.int,
        consumer_tag: bytes,
        delivery_tag: cython.ulonglong,
        is_redelivered: cython.bint,
        exchange: str,
        routing_key: str,
        header: bytes,
        body: bytes,
    ) -> None:
        """Append a basic.deliver and its content; `consumer_tag` is an encoded short string, `header` a payload."""
        before: cython.Py_ssize_t = self.waiting
        encoded_exchange: bytes = short_string(exchange)
        encoded_key: bytes = short_string(routing_key)
        size: cython.Py_ssize_t = 13 + len(consumer_tag) + len(encoded_exchange) + len(encoded_key)
        at: cython.Py_ssize_t = self._room_for(size + 8)
        out: cython.p_uchar = self._data
        shift: cython.int
        at = _write_head(out, at, 1, channel, size)
        out[at] = 0
        out[at + 1] = 60
        out[at + 2] = 0
        out[at + 3] = 60
        at = _write(out, at + 4, consumer_tag)
        for shift in range(56, -8, -8):
            out[at] = (delivery_tag >> shift) & 0xFF
            at += 1
        out[at] = 1 if is_redelivered else 0
        at = _write(out, at + 1, encoded_exchange)
        at = _write(out, at, encoded_key)
        out[at] = 0xCE
        self._lay_content(channel, header, body)
        self._added(before)

    def content(self, channel: cython.int, header: bytes, body: bytes) -> None:
        """Append a content header, given as its payload, and a body in frames of at most `frame_max` bytes."""
        before: cython.Py_ssize_t = self.waiting
        self._lay_content(channel, header, body)
        self._added(before)

    def take_bytes(self) -> bytes:
        """Take and return the pending output."""
        pieces = self.take_pieces()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take_pieces(self) -> list[bytes]:
        """Take and return the pending output in pieces, so that large bodies are not copied."""
        self._cut()
        pieces = self._pieces
        self._pieces = []
        self._usual = max(256, min(len(self._data), _LARGE))
        self._data = bytearray()
        self._taken = self.waiting
        return pieces

    def sent(self) -> bool:
        """Note that the taken output is sent; return whether that has made room after there was none."""
        self.waiting -= self._taken
        self._all.count -= self._taken
        self._taken = 0
        if self.has_room or self._is_full():
            return False
        self.has_room = True
        return True

    def is_over(self, most: cython.longlong) -> bool:
        """Whether more than `most` bytes wait, or more than `SHARE` while all clients together exceed their limit."""
        return self.waiting > most or (self._all.count > self._all.most and self.waiting > _SHARE)

    def close(self) -> None:
        """Stop counting unsent bytes and waking the task, because nothing will be sent any more."""
        self._all.count -= self.waiting
        self._all = UnsentBytes()
        self._wake = _nobody

    # --- buffer space

    def _is_full(self) -> cython.bint:
        return self.waiting > _HIGH_WATER or (self._all.count > self._all.most and self.waiting > _SHARE)

    def _added(self, before: cython.Py_ssize_t) -> None:
        self._all.count += self.waiting - before
        if self._is_full():
            self.has_room = False
        if before == self._taken and self.waiting > before:
            self._wake()

    def _room_for(self, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Reserve the next `size` bytes of the buffer and return their offset."""
        at: cython.Py_ssize_t = self._used
        room: cython.Py_ssize_t = len(self._data)
        if at + size > room:
            if at + size > _PIECE and at:
                self._cut()
                at = 0
            room = max(2 * room, at + size, self._usual)
            if cython.compiled:
                PyByteArray_Resize(self._data, room)  # type: ignore[name-defined]  # noqa: F821
            else:
                self._data += bytes(room - len(self._data))
        self._used = at + size
        self.waiting += size
        return at

    def _lay_content(self, channel: cython.int, header: bytes, body: bytes) -> None:
        size: cython.Py_ssize_t = len(header)
        at: cython.Py_ssize_t = self._room_for(size + 8)
        out: cython.p_uchar = self._data
        at = _write_head(out, at, 2, channel, size)
        at = _write(out, at, header)
        out[at] = 0xCE
        size = len(body)
        most: cython.Py_ssize_t = self.frame_max - 8 if self.frame_max else size
        start: cython.Py_ssize_t
        if size <= most:
            if size:
                self._lay_body(channel, body)
            return
        for start in range(0, size, most):
            self._lay_body(channel, body[start : start + most])

    def _lay_body(self, channel: cython.int, body: bytes) -> None:
        """Append a body frame; a body of `LARGE` bytes or more becomes a piece without being copied."""
        size: cython.Py_ssize_t = len(body)
        at: cython.Py_ssize_t
        out: cython.p_uchar
        if size < _LARGE:
            at = self._room_for(size + 8)
            out = self._data
            at = _write_head(out, at, 3, channel, size)
            at = _write(out, at, body)
            out[at] = 0xCE
            return
        at = self._room_for(7)
        _write_head(self._data, at, 3, channel, size)
        self._lay_aside(body)
        at = self._room_for(1)
        out = self._data
        out[at] = 0xCE

    def _lay_aside(self, data: bytes) -> None:
        self._cut()
        self._pieces.append(data)
        self.waiting += len(data)

    def _cut(self) -> None:
        """Close the current piece: move the bytes in the buffer to the list of pieces."""
        if self._used:
            data: cython.p_uchar = self._data
            self._pieces.append(bytes(data[: self._used]))
            self._used = 0
