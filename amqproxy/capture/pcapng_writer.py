"""Encoding of pcapng blocks: sections, interfaces, packets, statistics. Times are in nanoseconds.

Only short data is copied: the data of a packet goes between its head and its tail unchanged.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from amqproxy.capture.pcapng import ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER

INTERFACE_STATISTICS = 5

RAW_IP = 101
"""Link type of packets that begin with their IP header, of version 4 or 6."""

INBOUND, OUTBOUND = 1, 2
"""Packet flags: received or sent by the interface."""

MAX_OPTION_BYTES = 65_532
"""Maximum size of an option value; longer texts are truncated."""

_COMMENT = 1
_SHB_HARDWARE, _SHB_OS, _SHB_USERAPPL = 2, 3, 4
_IF_NAME, _IF_DESCRIPTION, _IF_TSRESOL, _IF_FILTER, _IF_OS = 2, 3, 9, 11, 12
_EPB_FLAGS, _EPB_DROPCOUNT = 2, 4
_ISB_STARTTIME, _ISB_ENDTIME, _ISB_IFRECV, _ISB_IFDROP = 2, 3, 4, 5

_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_UNKNOWN_LENGTH = -1
_NANOSECONDS = b"\x09"
_END_OF_OPTIONS = bytes(4)
_PADDING = (b"", b"\0", b"\0\0", b"\0\0\0")
"""Padding by its size."""

_HEAD = Struct("<7I").pack
_WORD = Struct("<I").pack
_OPTION = Struct("<2H").pack
_COUNT = Struct("<Q").pack


def section_header(*, program: str, hardware: str = "", system: str = "", comment: str = "") -> bytes:
    """Return the beginning of a file, or of another section of it, with an unspecified length."""
    head = Struct("<IHHq").pack(_BYTE_ORDER_MAGIC, 1, 0, _UNKNOWN_LENGTH)
    texts = {_COMMENT: comment, _SHB_HARDWARE: hardware, _SHB_OS: system, _SHB_USERAPPL: program}
    return _block(SECTION_HEADER, head + _texts(texts) + _END_OF_OPTIONS)


def interface_description(name: str, description: str, *, filter: str = "") -> bytes:
    """Return the next interface of a section, numbered from 0; `filter` is the filter that selected its packets."""
    head = Struct("<H2xI").pack(RAW_IP, 0)
    options = _texts({_IF_NAME: name, _IF_DESCRIPTION: description})
    options += _option(_IF_TSRESOL, _NANOSECONDS)
    if filter:
        options += _option(_IF_FILTER, b"\0" + filter.encode()[: MAX_OPTION_BYTES - 1])
    return _block(INTERFACE_DESCRIPTION, head + options + _END_OF_OPTIONS)


def interface_statistics(interface: int, ts_ns: int, *, start_ns: int, received: int, dropped: int) -> bytes:
    """Return the number of packets on an interface since `start_ns`, and how many of them are not in the file."""
    head = Struct("<3I").pack(interface, ts_ns >> 32, ts_ns & 0xFFFFFFFF)
    times = {_ISB_STARTTIME: start_ns, _ISB_ENDTIME: ts_ns}
    options = b"".join(_option(code, _WORD(each >> 32) + _WORD(each & 0xFFFFFFFF)) for code, each in times.items())
    options += _option(_ISB_IFRECV, _COUNT(received)) + _option(_ISB_IFDROP, _COUNT(dropped))
    return _block(INTERFACE_STATISTICS, head + options + _END_OF_OPTIONS)


@lru_cache(1024)
def packet_options(direction: int, comments: tuple[str, ...] = (), dropped: int = 0) -> bytes:
    """Return the options of a packet; `dropped` packets of the interface were lost before it."""
    options = b"".join([_option(_COMMENT, _cut(each)) for each in comments])
    options += _option(_EPB_FLAGS, _WORD(direction))
    if dropped:
        options += _option(_EPB_DROPCOUNT, _COUNT(dropped))
    return options + _END_OF_OPTIONS


def packet(
    interface: int,
    ts_ns: int,
    header: bytes,
    data: bytes | memoryview,
    missing: int,
    options: bytes,
) -> tuple[bytes | memoryview, ...]:
    """Return the pieces of a packet of `header` and `data`, of which the last `missing` bytes are absent."""
    captured = len(header) + len(data)
    length = 32 + (captured + 3 & ~3) + len(options)
    high, low = ts_ns >> 32, ts_ns & 0xFFFFFFFF
    head = _HEAD(ENHANCED_PACKET, length, interface, high, low, captured, captured + missing)
    return head + header, data, _PADDING[-captured & 3] + options + _WORD(length)


def _texts(texts: dict[int, str]) -> bytes:
    return b"".join([_option(code, _cut(text)) for code, text in texts.items() if text])


def _cut(text: str) -> bytes:
    data = text.encode("utf-8", "backslashreplace")
    return data if len(data) <= MAX_OPTION_BYTES else data[:MAX_OPTION_BYTES].decode("utf-8", "ignore").encode()


def _option(code: int, value: bytes) -> bytes:
    return _OPTION(code, len(value)) + value + _PADDING[-len(value) & 3]


def _block(kind: int, body: bytes) -> bytes:
    length = _WORD(12 + len(body))
    return _WORD(kind) + length + body + length
