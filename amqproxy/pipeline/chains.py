"""Chains of capture files that continue each other and are read as one capture.

Files of one chain are in one directory and differ in a counter of their writer:

- this proxy's recordings: `amqproxy-20261122T174700.123456Z-4711003421.pcapng`; the last number is the recorder's;
- `tcpdump -C` and `-W`: `x.pcap`, `x.pcap1`, `x.pcap2`, …, or `x.pcap00`, `x.pcap01`, …;
- `dumpcap -b`: `x_00001_20261122174700.pcapng`.

Any other file is a chain by itself. A compressed or unfinished file has the suffix `.gz`, `.zst`, `.lz4` or `.partial`,
and is the same capture.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from amqproxy.capture.files import PARTIAL, captures_in
from amqproxy.capture.warnings import CaptureError
from amqproxy.pipeline import storage

Mode: TypeAlias = Literal["auto", "directory", "file", "one"]
"""Chains by file names, one per directory, one per file, or one of all files, with the name of the first."""

COMPRESSED = (".zst", ".gz", ".lz4")
"""Suffixes of compressed captures."""
_RECORDING = re.compile(r"(amqproxy-)\d{8}T\d{6}\.\d{6}Z-(\d+)\.pcapng")
_TCPDUMP = re.compile(r"(?s)(.+\.(?:pcap|pcapng|cap))(\d*)")
_CAPTURE = re.compile(r"(?s).+\.(?:pcap|pcapng|cap)\d*")
_DUMPCAP = re.compile(r"(?s)(.+)_\d{5,}_\d{14}(\.(?:pcap|pcapng|cap))")


class Chain(msgspec.Struct, frozen=True):
    """Capture files that continue each other, in order.

    `name` is the same in every run, whichever files exist by then. The files of a recording each begin with whole
    frames and can be read separately, except contents and settlements that continue in the next file.
    """

    name: str
    files: tuple[str, ...]
    is_recording: bool = False


def capture_name(file: str) -> str:
    """Return the name of a file when it is complete and not compressed."""
    for ending in (PARTIAL, *COMPRESSED):
        file = file.removesuffix(ending)
    return file


def find(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the capture files of paths, directories and patterns, as absolute paths; each capture once.

    An existing path is taken as it is, even if it looks like a pattern. A missing path is returned too: reading it
    reports the error. Raise `CaptureError` for a directory without captures, and for a pattern without matches.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    found: dict[str, str] = {}
    for each in [os.fspath(path) for path in given]:
        path = Path(each.removeprefix("file://")).absolute()
        if storage.is_remote(each):
            files = _find_remote(each)
        elif path.is_dir():
            files = [str(file) for file in captures_in(path)]
        elif path.exists() or not glob.has_magic(str(path)):
            files = [str(path)]
        else:
            matching = glob.glob(str(path), recursive=True)  # noqa: PTH207 - pathlib has no absolute patterns
            files = [file for file in matching if not Path(file).is_dir()]
            if not files:
                raise CaptureError(each, 0, "no file matches", "check the pattern")
        for file in sorted(files):  # a plain file precedes its compressed copy
            found.setdefault(capture_name(file), file)
    return list(found.values())


def _find_remote(pattern: str) -> list[str]:
    """Return the captures of a directory in a bucket, or those that match a pattern such as
    `s3://traffic/x/*.pcapng`.
    """
    directory, _, last = pattern.rpartition("/")
    has_pattern = glob.has_magic(last)
    try:
        there = storage.list_remote(directory if has_pattern else pattern)
    except OSError as error:
        raise CaptureError(
            pattern, 0, f"cannot be read: {error}", "check the path, the keys and AWS_ENDPOINT_URL"
        ) from None
    if has_pattern:
        found = [file for file in there if fnmatchcase(file.rpartition("/")[2], last)]
    else:
        found = [file for file in there if file == pattern or _CAPTURE.fullmatch(capture_name(file))]
    if not found:
        raise CaptureError(pattern, 0, "no file matches" if has_pattern else "has no captures", "check the path")
    return found


def chains(files: Iterable[str], mode: Mode = "auto") -> list[Chain]:
    """Return the chains of files by their names, each with its files in order."""
    if mode == "one":
        ordered = tuple(sorted(files, key=_order))
        return [Chain(capture_name(ordered[0]), ordered)] if ordered else []
    found: dict[tuple[str, bool], list[str]] = {}
    for file in files:
        found.setdefault(_chain_of(file, mode), []).append(file)
    return [Chain(name, tuple(sorted(each, key=_order)), is_recording) for (name, is_recording), each in found.items()]


def _chain_of(file: str, mode: Mode) -> tuple[str, bool]:
    """Return the name of a file's chain, and whether it is a recording."""
    directory, slash, last = capture_name(file).rpartition("/")
    before = directory + slash
    recording = _RECORDING.fullmatch(last)
    if mode == "directory":
        return directory or ".", False
    if mode == "file":
        return capture_name(file), recording is not None
    if recording is not None:
        return f"{before}{recording[1]}{recording[2]}", True
    dumpcap = _DUMPCAP.fullmatch(last)
    if dumpcap is not None:
        return f"{before}{dumpcap[1]}{dumpcap[2]}", False
    tcpdump = _TCPDUMP.fullmatch(last)
    return (before + tcpdump[1] if tcpdump is not None else before + last), False


def _order(file: str) -> list[tuple[int, str]]:
    """Return a sort key that puts x2 before x10."""
    name = capture_name(file)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
