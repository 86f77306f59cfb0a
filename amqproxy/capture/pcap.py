"""The pcap file format: one header, then packets. Both byte orders, micro- and nanoseconds."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from collections.abc import Iterator
from struct import Struct
from typing import Any

from amqproxy.capture.byte_window import ByteWindow
from amqproxy.capture.warnings import WarningKind

MAX_PACKET_BYTES = 16 * 1024 * 1024
"""Packets that claim more are invalid; offloading creates packets of at most 0.5 MiB."""

NANOSECONDS = 1_000_000_000
_NANOSECONDS = cython.declare(cython.longlong, NANOSECONDS)

MICROSECOND = 0xA1B2C3D4
NANOSECOND = 0xA1B23C4D
MODIFIED = 0xA1B2CD34
"""Alexey Kuznetzov's patch to libpcap: eight more bytes before each packet, not needed here."""

_SCALE = {MICROSECOND: 1000, NANOSECOND: 1, MODIFIED: 1000}
_HEADER_BYTES = 24
_LINK_TYPE = 0x03FFFFFF
"""The upper bits of the link type show whether packets end in a checksum; IP headers have a length."""

MAGICS = frozenset(magic.to_bytes(4, order) for magic in _SCALE for order in ("big", "little"))


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.auto_pickle(True)
@cython.cclass
class Packet:
    """A captured packet; `data` may be shorter than its `original_length`.

    In a recording of the proxy, `leg` is "client" or "upstream", otherwise "". `comments` are those of pcapng.
    """

    __match_args__ = ("ts_ns", "link_type", "data", "original_length", "leg", "comments")

    def __init__(
        self,
        ts_ns: int,
        link_type: int,
        data: bytes,
        original_length: int,
        leg: str = "",
        comments: tuple[str, ...] = (),
    ) -> None:
        self.ts_ns = ts_ns
        self.link_type = link_type
        self._buffer = data
        self._start = 0
        self._end = len(data)
        self.original_length = original_length
        self.leg = leg
        self.comments = comments

    @property
    def data(self) -> bytes:
        return self._buffer[self._start : self._end]

    @staticmethod
    @cython.cfunc
    def _of(
        ts_ns: Any,
        link_type: cython.uint,
        buffer: bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        original_length: cython.longlong,
        leg: str,
        comments: Any,
    ) -> Packet:
        """Create an instance at the speed of C, with `buffer[start:end]` as its data."""
        if not cython.compiled:
            return Packet(ts_ns, link_type, buffer[start:end], original_length, leg, comments)
        made: Packet = Packet.__new__(Packet)
        made.ts_ns = ts_ns
        made.link_type = link_type
        made._buffer = buffer
        made._start = start
        made._end = end
        made.original_length = original_length
        made.leg = leg
        made.comments = comments
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Packet):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__match_args__])
        return f"Packet({values})"


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _four(p: cython.p_const_uchar, at: cython.Py_ssize_t, is_big: cython.bint) -> cython.longlong:
    """Return the unsigned four-byte number at a place."""
    number: cython.uint
    if is_big:
        number = cython.cast(cython.uint, p[at]) << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3]
    else:
        number = cython.cast(cython.uint, p[at + 3]) << 24 | p[at + 2] << 16 | p[at + 1] << 8 | p[at]
    return number


def packets(window: ByteWindow) -> Iterator[Packet]:
    """Yield the packets of a pcap file, from its magic number on."""
    if not window.need(_HEADER_BYTES):
        window.notice(WarningKind.CUT_SHORT, "cut short: it ends inside the file header")
        window.position += window.left
        return
    start = window.position
    order = "<" if window.buffer[start + 3] == 0xA1 else ">"
    magic, major, link_type = Struct(order + "IH14xI").unpack_from(window.buffer, start)
    if major != 2:
        raise window.error(
            f"it claims to be pcap of version {major}, and only version 2 exists",
            "see whether the file was damaged on its way",
        )
    window.position = start + _HEADER_BYTES
    link_type &= _LINK_TYPE
    scale: cython.longlong = _SCALE[magic]
    is_big: cython.bint = order == ">"
    size: cython.Py_ssize_t = 24 if magic == MODIFIED else 16
    buffer: bytes
    position: cython.Py_ssize_t
    last: cython.Py_ssize_t
    captured: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    ts_ns: cython.longlong
    while window.need(size):
        buffer = window.buffer
        position = window.position
        last = len(buffer) - size
        captured = 0
        while position <= last:
            captured = _four(buffer, position + 8, is_big)
            if captured > MAX_PACKET_BYTES:
                window.position = position
                raise window.error(
                    f"a packet claims {captured} bytes, more than any packet has",
                    "the file is damaged from here on; what came before is good",
                )
            stop = position + size + captured
            if stop > last + size:
                break
            ts_ns = _four(buffer, position, is_big) * _NANOSECONDS + _four(buffer, position + 4, is_big) * scale
            original = _four(buffer, position + 12, is_big)
            yield Packet._of(ts_ns, link_type, buffer, position + size, stop, original, "", ())
            position = stop
        window.position = position
        if position <= last and not window.need(size + captured):
            break
    if window.left or window.cut:
        window.notice(WarningKind.CUT_SHORT, "cut short: its last packet is not whole")
