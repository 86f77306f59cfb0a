"""Packets and capture files made by hand, for the tests of this floor; no reader is used to make them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

CLIENT = "10.0.0.1"
SERVER = "10.0.0.2"
CLIENT6 = "fd00::1"
SERVER6 = "fd00::2"

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

ETHERNET = 1
RAW = 101


def address(text: str) -> bytes:
    """The bytes of an address; IPv6 with at most one `::`."""
    if ":" not in text:
        return bytes(map(int, text.split(".")))
    head, _, tail = text.partition("::")
    left = [int(group, 16) for group in head.split(":") if group]
    right = [int(group, 16) for group in tail.split(":") if group]
    return struct.pack(">8H", *left, *[0] * (8 - len(left) - len(right)), *right)


def tcp(
    payload: bytes = b"",
    *,
    source: int = 40000,
    target: int = 5672,
    seq: int = 0,
    ack: int = 0,
    flags: int = ACK,
    options: bytes = b"",
    window: int = 8192,
) -> bytes:
    offset = 5 + len(options) // 4
    words = (source, target, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, offset << 12 | flags, window, 0, 0)
    return struct.pack(">HHIIHHHH", *words) + options + payload


def ipv4(
    payload: bytes,
    *,
    source: str = CLIENT,
    target: str = SERVER,
    protocol: int = 6,
    options: bytes = b"",
    length: int | None = None,
    number: int = 1,
    place: int = 0,
) -> bytes:
    header = 20 + len(options)
    total = header + len(payload) if length is None else length
    first = struct.pack(">BBHHHBBH", 0x40 | header // 4, 0, total & 0xFFFF, number, place, 64, protocol, 0)
    return first + address(source) + address(target) + options + payload


def ipv6(
    payload: bytes,
    *,
    source: str = CLIENT6,
    target: str = SERVER6,
    protocol: int = 6,
    length: int | None = None,
) -> bytes:
    length = len(payload) if length is None else length
    return struct.pack(">IHBB", 0x60000000, length, protocol, 64) + address(source) + address(target) + payload


def ethernet(payload: bytes, kind: int = 0x0800, tags: Sequence[tuple[int, int]] = ()) -> bytes:
    """A frame; `tags` are VLAN tags, outermost first, as (kind, number)."""
    stacked = b"".join(struct.pack(">HH", tag, number) for tag, number in tags)
    return b"\x02\0\0\0\0\x02" + b"\x02\0\0\0\0\x01" + stacked + struct.pack(">H", kind) + payload


# A packet of a file: seconds and nanoseconds as one number, and its bytes.
Timed = tuple[int, bytes]


def pcap(
    packets: Sequence[Timed],
    *,
    link_type: int = ETHERNET,
    order: str = "<",
    nanoseconds: bool = False,
    modified: bool = False,
    snap_length: int = 262144,
) -> bytes:
    magic = 0xA1B2CD34 if modified else 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap_length, link_type)]
    for ts_ns, data in packets:
        part = ts_ns % 10**9 if nanoseconds else ts_ns % 10**9 // 1000
        kept = data[:snap_length]
        out.append(struct.pack(order + "IIII", ts_ns // 10**9, part, len(kept), len(data)))
        if modified:
            out.append(struct.pack(order + "IHBx", 3, 0x0800, 0))
        out.append(kept)
    return b"".join(out)


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + padded(value)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body = padded(body)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<", options: bytes = b"") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def interface(link_type: int = ETHERNET, *, snap_length: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(order + "HHI", link_type, 0, snap_length) + options, order)


def enhanced(
    stamp: int,
    data: bytes,
    *,
    number: int = 0,
    original: int | None = None,
    options: bytes = b"",
    order: str = "<",
) -> bytes:
    """An enhanced packet block; `stamp` is in units of its interface."""
    length = len(data) if original is None else original
    head = struct.pack(order + "IIIII", number, stamp >> 32, stamp & 0xFFFFFFFF, len(data), length)
    return block(6, head + padded(data) + options, order)


def simple(data: bytes, *, original: int | None = None, order: str = "<") -> bytes:
    length = len(data) if original is None else original
    return block(3, struct.pack(order + "I", length) + data, order)


def obsolete(stamp: int, data: bytes, *, number: int = 0, order: str = "<") -> bytes:
    head = struct.pack(order + "HHIIII", number, 0, stamp >> 32, stamp & 0xFFFFFFFF, len(data), len(data))
    return block(2, head + data, order)


def pcapng(packets: Sequence[Timed], *, snap_length: int = 0) -> bytes:
    """A file of packets and nothing else, over Ethernet and in nanoseconds."""
    blocks = [section(), interface(snap_length=snap_length, options=option(9, b"\x09"))]
    for stamp, data in packets:
        kept = data[:snap_length] if snap_length else data
        blocks.append(enhanced(stamp, kept, original=len(data)))
    return b"".join(blocks)
