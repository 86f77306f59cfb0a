"""Extraction of the TCP segment from a captured packet: link layer, IPv4 or IPv6, TCP.

Checksums are not verified: if a network card computes them, a capture has wrong ones. This module may be compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from typing import Any

from amqproxy.capture.fragments import Fragments
from amqproxy.capture.pcap import Packet
from amqproxy.capture.warnings import CaptureWarning, OnWarning, WarningKind, ignore_warning

FIN = 1
SYN = 2
RST = 4
ACK = 16
ZERO_WINDOW = 256
"""Flag beside those of TCP: the sender accepts no more bytes for the moment."""

MAX_DEPTH = 4
"""Maximum nesting of IP in IP, and of fragments in fragments."""
_MAX_DEPTH = cython.declare(cython.int, MAX_DEPTH)

_ZERO_WINDOW = cython.declare(cython.int, ZERO_WINDOW)
_IPV4 = cython.declare(cython.int, 0x0800)
_IPV6 = cython.declare(cython.int, 0x86DD)
_ANY_IP = cython.declare(cython.int, -1)
_NOT_IP = cython.declare(cython.int, -2)
_UNKNOWN_LINK = cython.declare(cython.int, -3)


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.auto_pickle(True)
@cython.cclass
class TCPSegment:
    """A TCP segment.

    `flow` is source address, destination address, source port and destination port, as they were on the wire: 12 bytes
    for IPv4 and 36 for IPv6. `missing` bytes at the end of the payload were not captured. `leg` and `comments` are
    those of the packet that completed it.
    """

    __match_args__ = ("ts_ns", "flow", "seq", "ack", "flags", "payload", "missing", "leg", "comments")

    def __init__(
        self,
        ts_ns: int,
        flow: bytes,
        seq: int,
        ack: int,
        flags: int,
        payload: bytes,
        missing: int,
        leg: str = "",
        comments: tuple[str, ...] = (),
    ) -> None:
        self.ts_ns = ts_ns
        self.flow = flow
        self.seq = seq
        self.ack = ack
        self.flags = flags
        self.payload = payload
        self.missing = missing
        self.leg = leg
        self.comments = comments

    @staticmethod
    @cython.cfunc
    def _of(
        ts_ns: Any,
        flow: bytes,
        seq: cython.longlong,
        ack: cython.longlong,
        flags: cython.int,
        payload: bytes,
        missing: cython.longlong,
        leg: str,
        comments: Any,
    ) -> TCPSegment:
        """Create an instance at the speed of C."""
        if not cython.compiled:
            return TCPSegment(ts_ns, flow, seq, ack, flags, payload, missing, leg, comments)
        made: TCPSegment = TCPSegment.__new__(TCPSegment)
        made.ts_ns = ts_ns
        made.flow = flow
        made.seq = seq
        made.ack = ack
        made.flags = flags
        made.payload = payload
        made.missing = missing
        made.leg = leg
        made.comments = comments
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TCPSegment):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__match_args__])
        return f"TCPSegment({values})"


LINK_TYPES = frozenset({0, 1, 9, 12, 14, 50, 51, 101, 108, 113, 228, 229, 276})
"""Link types that a `Dissector` reads."""


@cython.auto_pickle(True)
@cython.cclass
class Dissector:
    """Finds the TCP segments in the packets of one file, and warns once about each kind that it cannot read."""

    _file: str
    _notify: object
    _fragments: Fragments
    _links: dict[int, bool]
    _leg: str
    _comments: tuple[str, ...]
    _cut: cython.int

    def __init__(self, file: str = "capture", notify: OnWarning = ignore_warning) -> None:
        self._file = file
        self._notify = notify
        self._fragments = Fragments()
        self._links = {}
        self._leg = ""
        self._comments = ()
        self._cut = 0

    def segment(self, packet: Packet) -> TCPSegment | None:
        """Return the segment that `packet` holds or completes, or None."""
        data: bytes = packet._buffer
        at: cython.Py_ssize_t = packet._start
        size: cython.Py_ssize_t = packet._end
        link: cython.uint = packet.link_type
        kind: cython.int = _NOT_IP
        if link == 1:  # Ethernet
            if size - at >= 14:
                at += 14
                kind = _two(data, at - 2)
        elif link == 113:  # Linux cooked
            if size - at >= 16:
                at += 16
                kind = _two(data, at - 2)
        elif link == 276:  # Linux cooked, second version
            if size - at >= 20:
                kind = _two(data, at)
                at += 20
        elif link == 101 or link == 12 or link == 14 or link == 228 or link == 229:  # raw IP
            kind = _ANY_IP
        elif link == 0 or link == 108:  # BSD loopback
            if size - at >= 4 and _is_ip_family(data, at):
                at += 4
                kind = _ANY_IP
        elif link == 9 or link == 50:  # PPP, with or without its address and control bytes
            if size - at >= 4:
                if data[at] == 0xFF and data[at + 1] == 0x03:
                    at += 2
                if data[at] & 1:  # a protocol number shortened to one byte
                    kind = _of_ppp(data[at])
                    at += 1
                else:
                    kind = _of_ppp(_two(data, at))
                    at += 2
        elif link == 51:  # PPP over Ethernet, from its header on
            kind = 0x8864
        else:
            kind = _UNKNOWN_LINK

        while kind == 0x8100 or kind == 0x88A8 or kind == 0x9100 or kind == 0x9200:  # VLAN tags, stacked
            if at + 4 > size:
                return None
            kind = _two(data, at + 2)
            at += 4
        if 0 <= kind <= 1500:  # a length: 802.3, where SNAP may contain the type
            if at + 8 > size or data[at] != 0xAA or data[at + 1] != 0xAA or data[at + 2] != 3:
                return None
            kind = _two(data, at + 6)
            at += 8
        if kind == 0x8864:  # a PPPoE session
            if at + 8 > size or data[at] != 0x11 or data[at + 1] != 0:
                return None
            kind = _of_ppp(_two(data, at + 6))
            at += 8

        if kind in (_IPV4, _IPV6, _ANY_IP):
            stop: cython.Py_ssize_t = packet._start + packet.original_length
            self._leg = packet.leg
            self._comments = packet.comments
            return self._ip(packet.ts_ns, data, at, size, max(stop, size), 0)
        if kind == _UNKNOWN_LINK:
            self._unknown(link)
        return None

    def finish(self) -> None:
        """Report the packets that were lost, at the end of the file."""
        fragmented = self._fragments.lost + self._fragments.pending
        if fragmented:
            self._report(WarningKind.FRAGMENTS, f"IP fragments are missing for {fragmented} packets, which are lost")
        if self._cut:
            text = f"{self._cut} packets were captured without the whole of their headers, and are lost"
            self._report(WarningKind.HEADERS, f"{text}: capture with a larger snapshot length")

    @cython.cfunc
    def _ip(
        self,
        ts_ns: Any,
        data: bytes,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        wire: cython.Py_ssize_t,
        depth: cython.int,
    ) -> TCPSegment | None:
        """Return the segment in the IP packet at `data[at:size]`; `wire` is the end of the packet before truncation."""
        if size - at < 20:
            self._cut += at < size < wire
            return None
        first: cython.int = data[at]
        header: cython.Py_ssize_t
        length: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        if first >> 4 == 4:
            header = (first & 15) * 4
            length = _two(data, at + 2)
            # A length of 0 comes from a card that segments large packets after their capture.
            stop = at + length if length else wire
            if header < 20 or stop < at + header:
                return None
            protocol: cython.int = data[at + 9]
            place: cython.int = _two(data, at + 6)
            if place & 0x3FFF:
                if protocol != 6:
                    return None
                key = data[at + 12 : at + 20] + data[at + 4 : at + 6]
                return self._fragment(
                    ts_ns,
                    key,
                    data[at + 12 : at + 20],
                    (place & 0x1FFF) * 8,
                    not place & 0x2000,
                    data,
                    at + header,
                    size,
                    stop,
                    protocol,
                    depth,
                )
            return self._payload(ts_ns, data, at + header, size, stop, protocol, at + 12, 8, depth)
        if first >> 4 == 6:
            if size - at < 40:
                self._cut += size < wire
                return None
            length = _two(data, at + 4)
            stop = at + 40 + length if length else wire
            return self._payload(ts_ns, data, at + 40, size, stop, data[at + 6], at + 8, 32, depth)
        return None

    @cython.cfunc
    def _payload(
        self,
        ts_ns: Any,
        data: bytes,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        protocol: cython.int,
        addresses: cython.Py_ssize_t,
        addresses_size: cython.Py_ssize_t,
        depth: cython.int,
    ) -> TCPSegment | None:
        """Return the segment at `data[at:stop]`, after any extension headers; its addresses are at `addresses`.

        Bytes beyond `size` were not captured.
        """
        while protocol != 6:
            if at + 8 > size or at + 8 > stop:
                return None
            if protocol == 0 or protocol == 43 or protocol == 60 or protocol == 135 or protocol == 139:
                protocol = data[at]
                at += (data[at + 1] + 1) * 8
            elif protocol == 51:  # authentication header
                protocol = data[at]
                at += (data[at + 1] + 2) * 4
            elif protocol == 44:  # fragment
                protocol = data[at]
                place: cython.int = _two(data, at + 2)
                if place & 0xFFF9:
                    key = data[addresses : addresses + addresses_size] + data[at + 4 : at + 8]
                    pair = data[addresses : addresses + addresses_size]
                    return self._fragment(
                        ts_ns,
                        key,
                        pair,
                        place & 0xFFF8,
                        not place & 1,
                        data,
                        at + 8,
                        size,
                        stop,
                        protocol,
                        depth,
                    )
                at += 8
            elif (protocol == 4 or protocol == 41) and depth < _MAX_DEPTH:  # IP in IP
                return self._ip(ts_ns, data, at, size, stop, depth + 1)
            else:
                return None

        missing: cython.Py_ssize_t = stop - size if stop > size else 0
        stop -= missing
        if stop - at < 20:
            self._cut += missing > 0
            return None
        start: cython.Py_ssize_t = at + (data[at + 12] >> 4) * 4
        if start < at + 20 or start > stop + missing:
            return None
        if start > stop:
            missing -= start - stop
            start = stop
        flow: bytes
        if addresses + addresses_size == at:
            flow = data[addresses : at + 4]
        else:
            flow = data[addresses : addresses + addresses_size] + data[at : at + 4]
        flags: cython.int = data[at + 13]
        if _two(data, at + 14) == 0 and not flags & 6:  # a reset has no window, whatever it says
            flags |= _ZERO_WINDOW
        return TCPSegment._of(
            ts_ns,
            flow,
            _four(data, at + 4),
            _four(data, at + 8),
            flags,
            data[start:stop],
            missing,
            self._leg,
            self._comments,
        )

    @cython.cfunc
    def _fragment(
        self,
        ts_ns: Any,
        key: bytes,
        pair: bytes,
        offset: cython.int,
        is_last: cython.bint,
        data: bytes,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        protocol: cython.int,
        depth: cython.int,
    ) -> TCPSegment | None:
        """Return the segment of the packet that this fragment, at `data[at:stop]`, completes."""
        if depth >= _MAX_DEPTH or at > stop:
            return None
        if stop > size:
            self._fragments.drop(key)
            return None
        whole = self._fragments.add(key, offset, data[at:stop], is_last)
        if whole is None:
            return None
        rebuilt: bytes = pair + whole
        whole_size: cython.Py_ssize_t = len(rebuilt)
        return self._payload(ts_ns, rebuilt, len(pair), whole_size, whole_size, protocol, 0, len(pair), depth + 1)

    @cython.cfunc
    def _unknown(self, link: cython.uint) -> None:
        if link not in self._links:
            self._links[link] = True
            text = f"packets of link type {link} ({_NAMES.get(link, 'unknown')}) are not understood, and are left out"
            self._report(WarningKind.LINK_TYPE, text)

    @cython.cfunc
    def _report(self, kind: object, text: str) -> None:
        self._notify(CaptureWarning(kind, self._file, -1, text))  # type: ignore[operator, arg-type]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _two(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
    return p[at] << 8 | p[at + 1]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _four(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.uint:
    high: cython.uint = p[at] << 8 | p[at + 1]
    low: cython.uint = p[at + 2] << 8 | p[at + 3]
    return high << 16 | low


@cython.cfunc
def _is_ip_family(data: bytes, at: cython.Py_ssize_t) -> cython.bint:
    """Whether an address family, in the byte order of the capturing system, is used for IP."""
    family: cython.int = data[at] | data[at + 3]
    if data[at + 1] or data[at + 2] or (data[at] and data[at + 3]):
        return False
    return family == 2 or family == 10 or family == 24 or family == 28 or family == 30


@cython.cfunc
def _of_ppp(protocol: cython.int) -> cython.int:
    if protocol == 0x21:
        return 0x0800
    if protocol == 0x57:
        return 0x86DD
    return -2


_NAMES = {
    6: "Token Ring",
    7: "ARCNET",
    10: "FDDI",
    104: "Cisco HDLC",
    105: "IEEE 802.11",
    107: "Frame Relay",
    119: "IEEE 802.11 with Prism",
    122: "IP over Fibre Channel",
    127: "IEEE 802.11 with radiotap",
    147: "user 0",
    163: "IEEE 802.11 with AVS",
    187: "Bluetooth HCI",
    189: "USB on Linux",
    220: "USB on Linux, padded",
    227: "CAN",
    249: "USBPcap",
    253: "netlink",
}
