"""The pcap file format: one header, then packets. Both byte orders, micro- and nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import msgspec

from amqproxy.capture.byte_window import ByteWindow
from amqproxy.capture.warnings import WarningKind

MAX_PACKET_BYTES = 16 * 1024 * 1024
"""A packet that claims more is taken for rubbish. Offloading makes packets of 0.5 MiB at most."""

NANOSECONDS = 1_000_000_000

MICROSECOND = 0xA1B2C3D4
NANOSECOND = 0xA1B23C4D
MODIFIED = 0xA1B2CD34
"""Alexey Kuznetzov's patch to libpcap: eight more bytes before each packet, not needed here."""

_SCALE = {MICROSECOND: 1000, NANOSECOND: 1, MODIFIED: 1000}
_HEADER_BYTES = 24
_LINK_TYPE = 0x03FFFFFF
"""The upper bits of the link type show whether packets end in a checksum; IP headers have a length."""

MAGICS = frozenset(magic.to_bytes(4, order) for magic in _SCALE for order in ("big", "little"))


class Packet(msgspec.Struct, frozen=True, gc=False):
    """One packet as captured: `data` may be shorter than the `original_length` it had."""

    ts_ns: int
    link_type: int
    data: bytes
    original_length: int


def packets(window: ByteWindow) -> Iterator[Packet]:
    """The packets of a pcap file, from its magic on."""
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
    scale = _SCALE[magic]
    record = Struct(order + ("4I8x" if magic == MODIFIED else "4I"))
    unpack, size = record.unpack_from, record.size

    while window.need(size):
        buffer, position = window.buffer, window.position
        last = len(buffer) - size
        captured = 0
        while position <= last:
            seconds, fraction, captured, original = unpack(buffer, position)
            if captured > MAX_PACKET_BYTES:
                window.position = position
                raise window.error(
                    f"a packet claims {captured} bytes, more than any packet has",
                    "the file is damaged from here on; what came before is good",
                )
            start = position + size
            stop = start + captured
            if stop > last + size:
                break
            yield Packet(
                seconds * NANOSECONDS + fraction * scale,
                link_type,
                buffer[start:stop],
                original,
            )
            position = stop
        window.position = position
        if position <= last and not window.need(size + captured):
            break
    if window.left or window.cut:
        window.notice(WarningKind.CUT_SHORT, "cut short: its last packet is not whole")
