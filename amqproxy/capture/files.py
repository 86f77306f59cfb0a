"""Capture files, whose format is detected from their first bytes, never from their name.

A directory stands for the captures in it, recognized and ordered by name. Several files form one capture, like the
files of a ring: a TCP connection continues from one to the next.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from amqproxy.capture import pcap, pcapng
from amqproxy.capture.byte_window import ByteWindow, OnRead, OnSecrets, ignore_read, ignore_secrets
from amqproxy.capture.pcap import Packet
from amqproxy.capture.warnings import CaptureError, CaptureWarning, OnWarning, WarningKind, ignore_warning

STANDARD_INPUT = "-"
PARTIAL = ".partial"
"""Suffix of a capture that is being written, or was when its writer ended."""

Source: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A capture: a path, `-` for standard input, a directory, or a stream."""
Sources: TypeAlias = Source | Sequence[Source]
"""One or more sources that form one capture."""

_IN_A_DIRECTORY = re.compile(r"(?s)(?P<stem>[^.].*\.(?:pcapng|pcap|cap)\d*)(?P<end>|\.gz|\.zst|\.lz4|\.partial)")
"""Names of captures; a number at the end is tcpdump's. A file being compressed exists beside its source."""

_OTHERS: list[tuple[bytes, str, str]] = [
    (b"\x02\x21\x4c\x18", "compressed with the legacy format of lz4", "pipe it in: `lz4 -dc FILE`, then read `-`"),
    (b"\xfd7zXZ\0", "compressed with xz", "pipe it in: `xz -dc FILE`, then read `-`"),
    (b"BZh", "compressed with bzip2", "pipe it in: `bzip2 -dc FILE`, then read `-`"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"snoop\0\0\0", "a snoop capture", "convert it: `editcap -F pcapng FILE NEW`"),
    (b"GMBU", "a Network Monitor capture", "convert it: `editcap -F pcapng FILE NEW`"),
    (b"XCP\0", "a Sniffer capture", "convert it: `editcap -F pcapng FILE NEW`"),
    (b"RTSS", "a Network Monitor capture", "convert it: `editcap -F pcapng FILE NEW`"),
]
_FORMATS = "give a pcap or pcapng file, plain, gzip, zstd or lz4 (`editcap -F pcapng` converts others)"


def read_packets(
    sources: Sources, notify: OnWarning = ignore_warning, on_read: OnRead = ignore_read
) -> Iterator[Packet]:
    """Yield the packets of a capture, in the order of its files.

    A file that ends inside a packet yields the packets before, then a `CUT_SHORT` notice. Any other defect is a
    `CaptureError`, after the packets before it.
    """
    for file in files_of(sources):
        yield from file.packets(notify, on_read)


class CaptureFile(msgspec.Struct, frozen=True):
    """One file of a capture, or one stream; changes to a directory's files while it is read are not errors."""

    source: Source
    is_in_directory: bool = False

    def packets(
        self,
        notify: OnWarning = ignore_warning,
        on_read: OnRead = ignore_read,
        on_secrets: OnSecrets = ignore_secrets,
    ) -> Iterator[Packet]:
        """Yield the packets of the file, as in `read_packets`."""
        name = name_of(self.source)
        if not isinstance(self.source, str | os.PathLike):
            yield from _packets(name, self.source, notify, on_read, on_secrets)
        elif os.fspath(self.source) == STANDARD_INPUT:
            yield from _packets(name, sys.stdin.buffer, notify, on_read, on_secrets)
        elif self.is_in_directory:
            yield from self._packets_in_directory(Path(self.source), notify, on_read, on_secrets)
        else:
            with _opened(Path(self.source)) as file:
                yield from _packets(name, file, notify, on_read, on_secrets)

    def _packets_in_directory(
        self, path: Path, notify: OnWarning, on_read: OnRead, on_secrets: OnSecrets
    ) -> Iterator[Packet]:
        """Yield the packets of a file in a growing ring, perhaps finished, compressed, removed or empty by now."""
        path = next((each for each in [path, *_successors(path)] if each.is_file()), path)

        def note(warning: CaptureWarning) -> None:
            notify(warning if warning.offset else msgspec.structs.replace(warning, offset=-1))

        try:
            is_empty = not path.stat().st_size
        except FileNotFoundError:
            notify(CaptureWarning(WarningKind.GONE, str(path), -1, "was removed while its directory was read"))
            return
        if is_empty:
            notify(CaptureWarning(WarningKind.CUT_SHORT, str(path), -1, "it is empty"))
            return
        with _opened(path) as file:
            yield from _packets(str(path), file, note, on_read, on_secrets)


def files_of(sources: Sources) -> list[CaptureFile]:
    """Return the files of a capture, in order; `CaptureError` for a directory without any."""
    found: list[CaptureFile] = []
    for each in _each(sources):
        if isinstance(each, str | os.PathLike) and os.fspath(each) != STANDARD_INPUT and Path(each).is_dir():
            found += [CaptureFile(path, is_in_directory=True) for path in captures_in(Path(each))]
        else:
            found.append(CaptureFile(each))
    return found


def captures_in(directory: Path) -> list[Path]:
    """Return the captures of a directory, by name; numbers in names are ordered as numbers."""
    try:
        names = [each.name for each in os.scandir(directory) if each.is_file()]
    except OSError as failed:
        raise CaptureError(
            str(directory), 0, f"cannot be read: {failed.strerror}", "check the path and its rights"
        ) from None
    by_stem: dict[str, str] = {}
    for name in sorted(names):  # the plain file sorts before its compressed copy
        match = _IN_A_DIRECTORY.fullmatch(name)
        if match is not None:
            by_stem.setdefault(match["stem"], name)
    if not by_stem:
        reason = "there are no captures in this directory"
        remedy = "their names end in .pcapng or .pcap, and may go on with .gz, .zst or .lz4"
        raise CaptureError(str(directory), 0, reason, remedy)
    return [directory / by_stem[stem] for stem in sorted(by_stem, key=_natural)]


def name_of(sources: Sources) -> str:
    """Return a readable name of one or more sources."""
    first, *more = _each(sources)
    if more:
        return f"{name_of(first)} and {len(more)} more"
    if not isinstance(first, str | os.PathLike):
        return str(getattr(first, "name", "stream"))
    path = os.fspath(first)
    return "standard input" if path == STANDARD_INPUT else path


def _each(sources: Sources) -> list[Source]:
    return list(sources) if isinstance(sources, list | tuple) else [sources]  # type: ignore[list-item]


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders x2 before x10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _successors(path: Path) -> list[Path]:
    """Return the possible paths of a capture after it is finished, and compressed."""
    finished = path.with_name(path.name.removesuffix(PARTIAL))
    return [finished, *(finished.with_name(finished.name + end) for end in (".zst", ".gz", ".lz4"))]


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=0)
    except OSError as failed:
        reason = f"cannot be opened: {failed.strerror}"
        raise CaptureError(str(path), 0, reason, "check the path and its rights") from None


def _packets(
    file: str, source: BinaryIO, notify: OnWarning, on_read: OnRead, on_secrets: OnSecrets
) -> Iterator[Packet]:
    try:
        window = ByteWindow(file, source, notify, on_read, on_secrets)
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
