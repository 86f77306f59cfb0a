"""Packets of made-up TCP connections as blocks of a pcapng file, in pieces to be written in sequence.

Small data is copied beside the headers, since an additional piece costs more; larger data is not copied. This module
may be compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from typing import TypeAlias

from amqproxy.capture.pcapng import ENHANCED_PACKET
from amqproxy.capture.synthetic_tcp import MOST_HEADER_BYTES, SyntheticTCP

Pieces: TypeAlias = list[bytes | memoryview]
"""Byte strings to be written in sequence."""

COPIED_BYTES = 4096
"""Data size below which packets share a piece with others."""

ROOM = 64 * 1024
"""Bytes allocated at a time for headers and copied data."""

_COPIED_BYTES = cython.declare(cython.Py_ssize_t, COPIED_BYTES)
_ROOM = cython.declare(cython.Py_ssize_t, ROOM)
_MOST_BYTES = cython.declare(cython.Py_ssize_t, MOST_HEADER_BYTES + 32 + 3)
_ENHANCED_PACKET = cython.declare(cython.uint, ENHANCED_PACKET)
_HEAD = cython.declare(cython.Py_ssize_t, 28)
_PSH_ACK = cython.declare(cython.int, 0x18)
_ACK = cython.declare(cython.int, 0x10)


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class PacketPieces:
    """Packets until they are taken: `size` is their total in bytes, `count` the approximate number of pieces."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self._pieces: Pieces = []
        self._room = bytearray(ROOM)
        self._view = memoryview(self._room)
        self._begun = self._at = 0

    def take(self) -> Pieces:
        """Remove and return all pieces."""
        self._end_piece()
        pieces = self._pieces
        self._pieces = []
        self.size = self.count = 0
        return pieces

    def add(self, interface: int, ts_ns: int, header: bytes, options: bytes) -> None:
        """Add a packet that consists of a header only; options are those of `packet_options`."""
        self._reserve(_MOST_BYTES + len(header) + len(options))
        end: cython.Py_ssize_t = _put(self._room, self._at + _HEAD, header, 0, len(header))
        self._complete(interface, ts_ns, end, header, 0, 0, 0, options)

    @cython.ccall
    def add_data(
        self,
        interface: cython.uint,
        ts_ns: cython.ulonglong,
        tcp: SyntheticTCP,
        sender: cython.int,
        data: bytes,
        start: cython.Py_ssize_t,
        kept: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        options: bytes,
    ) -> object:
        """Add a packet with the `data` from `start` to `end`, of which only the part before `kept` is present.

        A packet without data is an acknowledgement.
        """
        self._reserve(_MOST_BYTES + len(options) + min(kept - start, _COPIED_BYTES))
        at: cython.Py_ssize_t
        if start < end:
            at = tcp._write_header(self._room, self._at + _HEAD, sender, _PSH_ACK, end - start, 0)
            tcp._note_sent(sender, end - start)
        else:
            at = tcp._write_header(self._room, self._at + _HEAD, sender, _ACK, 0, 0)
            tcp._note_acknowledged(1 - sender)
        return self._complete(interface, ts_ns, at, data, start, kept, end, options)

    @cython.cfunc
    def _complete(
        self,
        interface: cython.uint,
        ts_ns: cython.ulonglong,
        at: cython.Py_ssize_t,
        data: bytes,
        start: cython.Py_ssize_t,
        kept: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        options: bytes,
    ) -> object:
        """Complete a packet whose IP and TCP headers are already written, up to `at`."""
        out: cython.p_uchar = self._room
        begin: cython.Py_ssize_t = self._at
        captured: cython.Py_ssize_t = at - begin - _HEAD + kept - start
        length: cython.Py_ssize_t = 32 + (captured + 3 & -4) + len(options)
        _put_word(out, begin, _ENHANCED_PACKET)
        _put_word(out, begin + 4, length)
        _put_word(out, begin + 8, interface)
        _put_word(out, begin + 12, ts_ns >> 32)
        _put_word(out, begin + 16, ts_ns & 0xFFFFFFFF)
        _put_word(out, begin + 20, captured)
        _put_word(out, begin + 24, captured + end - kept)
        if kept - start < _COPIED_BYTES:
            at = _put(out, at, data, start, kept)
        else:
            self._at = at
            self._end_piece()
            self._pieces.append(data if kept - start == len(data) else memoryview(data)[start:kept])
            self.count += 1
        for _ in range(-captured & 3):
            out[at] = 0
            at += 1
        at = _put(out, at, options, 0, len(options))
        self._at = _put_word(out, at, length)
        self.size += length
        return None

    @cython.cfunc
    def _reserve(self, size: cython.Py_ssize_t) -> object:
        """Make room for `size` bytes in one piece."""
        if self._at + size > len(self._room):
            self._end_piece()
            self._room = bytearray(max(_ROOM, size))
            self._view = memoryview(self._room)
            self._begun = self._at = 0
        return None

    @cython.cfunc
    def _end_piece(self) -> object:
        """End the current piece, so that the following bytes begin another."""
        if self._begun < self._at:
            self._pieces.append(self._view[self._begun : self._at])
            self.count += 1
            self._begun = self._at
        return None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put(
    out: cython.p_uchar, at: cython.Py_ssize_t, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write `data[start:end]` at `at`; return the end."""
    if not cython.compiled:
        out[at : at + end - start] = data[start:end]
        return at + end - start
    p: cython.p_const_uchar = data
    memcpy(out + at, p + start, end - start)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd
    return at + end - start


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_word(out: cython.p_uchar, at: cython.Py_ssize_t, number: cython.uint) -> cython.Py_ssize_t:
    """Write a four-byte number at `at`; return the end."""
    out[at] = number & 0xFF
    out[at + 1] = number >> 8 & 0xFF
    out[at + 2] = number >> 16 & 0xFF
    out[at + 3] = number >> 24 & 0xFF
    return at + 4
