"""The pcapng file format: sections of blocks, of which those that hold packets are read.

Interfaces are numbered within their section, and each has a clock resolution. Blocks of names, statistics and of
unknown kinds are skipped.

A recording of the proxy has an interface for each leg of its sessions, named for the leg, and its section or
interfaces name the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

import msgspec

from amqproxy.capture.byte_window import ByteWindow
from amqproxy.capture.packet_snapshot import CUSTOM_BINARY, read_snapshot
from amqproxy.capture.pcap import MAX_PACKET_BYTES, NANOSECONDS, Packet
from amqproxy.capture.warnings import WarningKind

MAX_BLOCK_BYTES = MAX_PACKET_BYTES + 1024 * 1024
"""Blocks that claim more are invalid: the bound includes a packet, its comments and options."""
MAX_INTERFACES = 65_536
"""Interfaces in one section; more are invalid."""

SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
PACKET = 2
SIMPLE_PACKET = 3
ENHANCED_PACKET = 6

DECRYPTION_SECRETS = 10
TLS_KEY_LOG = 0x544C534B

SECTION_MAGIC = SECTION_HEADER.to_bytes(4, "big")

_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_FRAME_BYTES = 12
_END_OF_OPTIONS = 0
_COMMENT = 1
_IF_NAME = 2
_IF_DESCRIPTION = 3
_IF_TSRESOL = 9
_IF_TSOFFSET = 14
_SHB_USERAPPL = 4

LEGS = ("client", "upstream")
"""The names of the interfaces of a recording: the legs of the proxy's sessions."""
PROGRAM = "amqproxy"
"""Prefix of the program name in a recording, and of the description of each of its interfaces."""

_MAX_KNOWN_OPTIONS = 1024
"""Packet options whose comments are cached, since most packets of a file have the same."""
_MAX_KNOWN_OPTION_BYTES = 1024
"""Size beyond which options are not cached; a packet may have 17 MiB."""

_PACKETS = frozenset({PACKET, SIMPLE_PACKET, ENHANCED_PACKET})
_REMEDY = "the file is damaged from here on; what came before is good"


class Interface(msgspec.Struct, frozen=True):
    """A capture interface of a section.

    A time of `n` units is `n * numerator // denominator + offset_ns` nanoseconds.
    """

    link_type: int
    snap_length: int
    numerator: int = 1000
    denominator: int = 1
    offset_ns: int = 0
    leg: str = ""
    """The leg of the sessions, in a recording of the proxy."""

    def ts_ns(self, high: int, low: int) -> int:
        """Return nanoseconds since 1970 for a timestamp in two halves."""
        return (high << 32 | low) * self.numerator // self.denominator + self.offset_ns


class _Section:
    """The byte order and interfaces of one section, with which its blocks are read."""

    __slots__ = (
        "_known_comments",
        "_notice",
        "enhanced",
        "head",
        "interface",
        "interfaces",
        "is_recording",
        "obsolete",
        "option",
        "order",
        "whole",
        "word",
    )

    def __init__(self, order: str, notice: Callable[[WarningKind, str, int], None]) -> None:
        self.order = order
        self._notice: Callable[[WarningKind, str, int], None] | None = notice
        self.is_recording = False
        self._known_comments: dict[bytes, tuple[str, ...]] = {}
        self.head = Struct(order + "2I").unpack_from
        self.whole = Struct(order + "7I").unpack_from
        self.enhanced = Struct(order + "5I").unpack_from
        self.obsolete = Struct(order + "2H4I").unpack_from
        self.interface = Struct(order + "H2xI").unpack_from
        self.option = Struct(order + "2H").unpack_from
        self.word = Struct(order + "I").unpack_from
        self.interfaces: list[Interface] = []

    def packet(self, kind: int, buffer: bytes, start: int, stop: int) -> Packet:
        """Return the packet in the body `buffer[start:stop]` of a block of `kind`."""
        if stop - start < (4 if kind == SIMPLE_PACKET else 20):
            raise ValueError(f"a block of kind {kind} is too short")
        if kind == ENHANCED_PACKET:
            number, high, low, captured, original = self.enhanced(buffer, start)
            start += 20
        elif kind == PACKET:
            number, _drops, high, low, captured, original = self.obsolete(buffer, start)
            start += 20
        else:
            (original,) = self.word(buffer, start)
            number = high = low = 0
            start += 4
            captured = min(original, stop - start)
            if self.interfaces and self.interfaces[0].snap_length:
                captured = min(captured, self.interfaces[0].snap_length)
        if captured > stop - start:
            raise ValueError(f"a packet of {captured} bytes does not fit its block")
        if number >= len(self.interfaces):
            raise ValueError(f"a packet is of interface {number}, which was not described")
        interface = self.interfaces[number]
        ts_ns = 0 if kind == SIMPLE_PACKET else interface.ts_ns(high, low)
        after = start + (captured + 3 & ~3)
        comments = () if kind == SIMPLE_PACKET else self.comments(buffer[after:stop], start - 28)
        return Packet(ts_ns, interface.link_type, buffer[start : start + captured], original, interface.leg, comments)

    def comments(self, options: bytes, position: int) -> tuple[str, ...]:
        """Return the comments among the options of the packet at `position`, and the snapshot that they contain."""
        comments = self._known_comments.get(options)
        if comments is None:
            listed: list[str] = []
            custom: list[bytes] = []
            for code, value in self.options(options, 0):
                if code == _COMMENT:
                    listed.append(value.decode("utf-8", "replace"))
                elif code == CUSTOM_BINARY:
                    custom.append(value)
            if custom:
                return (*listed, *self._snapshot(custom, position))
            comments = tuple(listed)
            if len(self._known_comments) >= _MAX_KNOWN_OPTIONS:
                self._known_comments.clear()
            if len(options) <= _MAX_KNOWN_OPTION_BYTES:
                self._known_comments[options] = comments
        return comments

    def _snapshot(self, custom: list[bytes], position: int) -> tuple[str, ...]:
        """Return the snapshot in the custom options of a packet, if there is one."""
        try:
            found = read_snapshot(custom, self.order)
        except ValueError as wrong:
            if self._notice is not None:
                self._notice(WarningKind.SNAPSHOT, f"{wrong}, and is ignored", position)
                self._notice = None  # other files may use the enterprise number in every packet
            return ()
        return () if found is None else (found,)

    def options(self, body: bytes, position: int) -> Iterator[tuple[int, bytes]]:
        """Yield the options from `position` on, as (code, value)."""
        while position + 4 <= len(body):
            code, length = self.option(body, position)
            if code == _END_OF_OPTIONS:
                return
            yield code, body[position + 4 : position + 4 + length]
            position += 4 + (length + 3 & ~3)

    def take_header(self, body: bytes) -> None:
        """Process the body of the section header."""
        self.is_recording = any(
            code == _SHB_USERAPPL and value.startswith(PROGRAM.encode()) for code, value in self.options(body, 16)
        )

    def key_log(self, body: bytes) -> bytes:
        """Return the TLS secrets in the body of a decryption secrets block; empty if it holds others, or none."""
        if len(body) < 8:
            return b""
        kind, length = self.head(body, 0)
        return body[8 : 8 + length] if kind == TLS_KEY_LOG else b""

    def describe(self, body: bytes) -> None:
        """Process the body of an interface description block."""
        if len(self.interfaces) >= MAX_INTERFACES:
            raise ValueError(f"a section describes more than {MAX_INTERFACES} interfaces")
        if len(body) < 8:
            raise ValueError(f"a block of kind {INTERFACE_DESCRIPTION} is too short")
        link_type, snap_length = self.interface(body, 0)
        numerator, denominator, offset_ns = 1000, 1, 0
        name, is_recording = "", self.is_recording
        for code, value in self.options(body, 8):
            if code == _IF_TSRESOL and value:
                base, power = (2, value[0] & 0x7F) if value[0] & 0x80 else (10, value[0])
                numerator, denominator = NANOSECONDS, base**power
            elif code == _IF_TSOFFSET and len(value) == 8:
                (seconds,) = Struct(self.order + "q").unpack(value)
                offset_ns = seconds * NANOSECONDS
            elif code == _IF_NAME:
                name = value.decode("utf-8", "replace")
            elif code == _IF_DESCRIPTION:
                is_recording |= value.startswith(PROGRAM.encode())
        leg = name if is_recording and name in LEGS else ""
        if numerator % denominator == 0:
            numerator, denominator = numerator // denominator, 1
        self.interfaces.append(Interface(link_type, snap_length, numerator, denominator, offset_ns, leg))


def packets(window: ByteWindow) -> Iterator[Packet]:
    """Yield the packets of a pcapng file, from its first section header on."""
    section = _Section("<", window.notice)
    while window.need(_FRAME_BYTES):
        yield from _enhanced_packets(window, section)
        if not window.need(_FRAME_BYTES):
            break
        if window.buffer.startswith(SECTION_MAGIC, window.position):
            section = _section(window)
        kind, length = section.head(window.buffer, window.position)
        if length < _FRAME_BYTES or length > MAX_BLOCK_BYTES:
            raise window.error(f"a block claims {length} bytes", _REMEDY)
        if not window.need(length):
            break
        buffer, position = window.buffer, window.position
        stop = position + length - 4
        (again,) = section.word(buffer, stop)
        if again != length:
            raise window.error(f"a block begins with length {length}, ends with {again}", _REMEDY)
        try:
            if kind in _PACKETS:
                yield section.packet(kind, buffer, position + 8, stop)
            elif kind == SECTION_HEADER:
                section.take_header(buffer[position + 8 : stop])
            elif kind == INTERFACE_DESCRIPTION:
                section.describe(buffer[position + 8 : stop])
            elif kind == DECRYPTION_SECRETS:
                secrets = section.key_log(buffer[position + 8 : stop])
                if secrets:
                    window.on_secrets(secrets)
        except ValueError as broken:
            raise window.error(str(broken), _REMEDY) from None
        window.position = position + length
    if window.left or window.cut:
        window.notice(WarningKind.CUT_SHORT, "cut short: its last block is not whole")


def _enhanced_packets(window: ByteWindow, section: _Section) -> Iterator[Packet]:
    """Yield the next packets while their blocks are of the usual kind, valid and in the buffer.

    Nearly all blocks are; this repeats `packets` for speed.
    """
    buffer, position = window.buffer, window.position
    size = len(buffer)
    unpack, word, interfaces = section.whole, section.word, section.interfaces
    while position + 32 <= size:
        kind, length, number, high, low, captured, original = unpack(buffer, position)
        stop = position + length
        if kind != ENHANCED_PACKET or length < 32 + captured or stop > size or number >= len(interfaces):
            break
        if word(buffer, stop - 4)[0] != length or length > MAX_BLOCK_BYTES:
            break
        interface = interfaces[number]
        ts_ns = (high << 32 | low) * interface.numerator
        if interface.denominator != 1:
            ts_ns //= interface.denominator
        after = position + 28 + (captured + 3 & ~3)
        yield Packet._of(
            ts_ns + interface.offset_ns,
            interface.link_type,
            buffer,
            position + 28,
            position + 28 + captured,
            original,
            interface.leg,
            section.comments(buffer[after : stop - 4], position) if after < stop - 4 else (),
        )
        position = stop
    window.position = position


def _section(window: ByteWindow) -> _Section:
    """Return the section whose header is at `position`; its length is ignored, so that -1 needs no special case.

    Versions 1.0 and 1.2 are the same for a reader.
    """
    buffer, position = window.buffer, window.position
    for order in "<>":
        (magic,) = Struct(order + "I").unpack_from(buffer, position + 8)
        if magic == _BYTE_ORDER_MAGIC:
            break
    else:
        raise window.error("a section header has no byte order magic", _REMEDY)
    if window.need(16):
        (major,) = Struct(order + "H").unpack_from(window.buffer, window.position + 12)
        if major != 1:
            raise window.error(f"a section claims version {major} of pcapng, and only version 1 exists", _REMEDY)
    return _Section(order, window.notice)
