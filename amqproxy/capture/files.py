"""Capture files: what a path holds is found out from its first bytes, never from its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from amqproxy.capture import pcap, pcapng
from amqproxy.capture.byte_window import ByteWindow
from amqproxy.capture.pcap import Packet
from amqproxy.capture.warnings import CaptureError, OnWarning, ignore_warning

STANDARD_INPUT = "-"

_OTHERS: list[tuple[bytes, str, str]] = [
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "pipe it in: `zstd -dc FILE`, then read `-`"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "pipe it in: `lz4 -dc FILE`, then read `-`"),
    (b"\xfd7zXZ\0", "compressed with xz", "pipe it in: `xz -dc FILE`, then read `-`"),
    (b"BZh", "compressed with bzip2", "pipe it in: `bzip2 -dc FILE`, then read `-`"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"snoop\0\0\0", "a snoop capture", "convert it: `editcap -F pcapng FILE NEW`"),
    (b"GMBU", "a Network Monitor capture", "convert it: `editcap -F pcapng FILE NEW`"),
    (b"XCP\0", "a Sniffer capture", "convert it: `editcap -F pcapng FILE NEW`"),
    (b"RTSS", "a Network Monitor capture", "convert it: `editcap -F pcapng FILE NEW`"),
]
_FORMATS = "give a pcap or pcapng file, plain or gzip (`editcap -F pcapng` converts others)"


def read_packets(source: str | os.PathLike[str] | BinaryIO, notify: OnWarning = ignore_warning) -> Iterator[Packet]:
    """The packets of a capture, in file order: of a path, of `-` (standard input), of a stream.

    A file that ends inside a packet gives what came before, then a `CUT_SHORT` notice. Anything
    else wrong is a `CaptureError`, after the packets before it.
    """
    name = name_of(source)
    if not isinstance(source, str | os.PathLike):
        yield from _packets(name, source, notify)
    elif os.fspath(source) == STANDARD_INPUT:
        yield from _packets(name, sys.stdin.buffer, notify)
    else:
        try:
            file = Path(source).open("rb", buffering=0)  # noqa: SIM115  - closed below, on every way out
        except OSError as failed:
            reason = f"cannot be opened: {failed.strerror}"
            raise CaptureError(name, 0, reason, "check the path and its rights") from None
        with file:
            yield from _packets(name, file, notify)


def name_of(source: str | os.PathLike[str] | BinaryIO) -> str:
    """What a person calls a source."""
    if not isinstance(source, str | os.PathLike):
        return str(getattr(source, "name", "stream"))
    path = os.fspath(source)
    return "standard input" if path == STANDARD_INPUT else path


def _packets(file: str, source: BinaryIO, notify: OnWarning) -> Iterator[Packet]:
    try:
        window = ByteWindow(file, source, notify)
        window.need(12)
        start = window.buffer[:12]
        if start[:4] in pcap.MAGICS:
            yield from pcap.packets(window)
        elif start.startswith(pcapng.SECTION_MAGIC):
            yield from pcapng.packets(window)
        else:
            raise _stranger(file, start)
    except OSError as failed:
        raise CaptureError(
            file, 0, f"cannot be read: {failed.strerror}", "check the path, its rights and the disk"
        ) from None


def _stranger(file: str, start: bytes) -> CaptureError:
    if not start:
        return CaptureError(file, 0, "it is empty", _FORMATS)
    for magic, what, remedy in _OTHERS:
        if start.startswith(magic):
            return CaptureError(file, 0, f"it is {what}", remedy)
    shown = start[:8].hex(" ")
    return CaptureError(file, 0, f"it is no capture: it begins with {shown}", _FORMATS)
