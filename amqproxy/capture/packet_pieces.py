"""Packets of made-up TCP connections as blocks of a pcapng file, in pieces that are written one behind the other.

Small data is copied beside the headers, since another piece costs more than that; other data stays where it is. This
module may be compiled.
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
"""Bytes that are to be written one after the other."""

COPIED_BYTES = 4096
"""Packets with less data are part of one piece with others."""

ROOM = 64 * 1024
"""Bytes that are made room for at once: of headers, and of data that is copied."""

_COPIED_BYTES = cython.declare(cython.Py_ssize_t, COPIED_BYTES)
_ROOM = cython.declare(cython.Py_ssize_t, ROOM)
_MOST_BYTES = cython.declare(cython.Py_ssize_t, MOST_HEADER_BYTES + 32 + 3)
_ENHANCED_PACKET = cython.declare(cython.uint, ENHANCED_PACKET)
_HEAD = cython.declare(cython.Py_ssize_t, 28)
_PSH_ACK = cython.declare(cython.int, 0x18)
_ACK = cython.declare(cython.int, 0x10)


@cython.final
@cython.cclass
class PacketPieces:
    """Packets until they are taken: `size` is how many bytes they are, `count` how many pieces, about."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self._pieces: Pieces = []
        self._room = bytearray(ROOM)
        self._view = memoryview(self._room)
        self._begun = self._at = 0

    def take(self) -> Pieces:
        """All of them."""
        self._end_piece()
        pieces = self._pieces
        self._pieces = []
        self.size = self.count = 0
        return pieces

    def add(self, interface: int, ts_ns: int, header: bytes, options: bytes) -> None:
        """Add a packet that is no more than a header; options are as `packet_options` makes them."""
        self._reserve(_MOST_BYTES + len(header) + len(options))
        end: cython.Py_ssize_t = _put(self._room, self._at + _HEAD, header, 0, len(header))
        self._complete(interface, ts_ns, end, header, 0, 0, 0, options)

    def add_data(
        self,
        interface: int,
        ts_ns: int,
        tcp: SyntheticTCP,
        sender: int,
        data: bytes,
        start: cython.Py_ssize_t,
        kept: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        options: bytes,
    ) -> None:
        """Add a packet with the `data` from `start` to `end`, of which only what is before `kept` is there.

        One without data is an acknowledgement.
        """
        self._reserve(_MOST_BYTES + len(options) + min(kept - start, _COPIED_BYTES))
        at: cython.Py_ssize_t
        if start < end:
            at = tcp._write_header(self._room, self._at + _HEAD, sender, _PSH_ACK, end - start, 0)
            tcp._note_sent(sender, end - start)
        else:
            at = tcp._write_header(self._room, self._at + _HEAD, sender, _ACK, 0, 0)
            tcp._note_acknowledged(1 - sender)
        self._complete(interface, ts_ns, at, data, start, kept, end, options)

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
        """Add what is missing of a packet whose headers of IP and TCP have been written, and end at a place."""
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
        """Make room for so many bytes in one piece."""
        if self._at + size > len(self._room):
            self._end_piece()
            self._room = bytearray(max(_ROOM, size))
            self._view = memoryview(self._room)
            self._begun = self._at = 0
        return None

    @cython.cfunc
    def _end_piece(self) -> object:
        """What comes next belongs to another piece."""
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
    """Write bytes from `start` to `end` at a place; the place behind them."""
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
    """Write a number of four bytes at a place; the place behind it."""
    out[at] = number & 0xFF
    out[at + 1] = number >> 8 & 0xFF
    out[at + 2] = number >> 16 & 0xFF
    out[at + 3] = number >> 24 & 0xFF
    return at + 4
