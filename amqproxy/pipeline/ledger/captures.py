"""Captures as they were when they were ingested, by which a change of one is seen."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import msgspec

from amqproxy.pipeline import storage

_SAMPLE = 64 * 1024
"""Bytes at each end of a capture by which a change of it is seen."""


class Capture(msgspec.Struct, frozen=True):
    """A capture file as it was when it was ingested."""

    path: str
    size: int
    modified_ns: int
    digest: str
    """Of its two ends."""


def present(file: str) -> str:
    """A capture where it is now: a recorder compresses it some time after it has closed it."""
    if not Path(file).exists():
        for ending in (".zst", ".gz", ".lz4"):
            if Path(file + ending).exists():
                return file + ending
    return file


def capture_of(file: str) -> Capture:
    """What is remembered of a capture; of one that is gone, its name."""
    try:
        about = storage.state_of(file)
        return Capture(file, about.size, about.modified_ns, _digest(file, about.size))
    except FileNotFoundError:  # deleted since it was read, as by a recorder that keeps so many
        return Capture(file, -1, -1, "")


def has_changed(file: str, seen: Capture) -> bool:
    """Is a capture another than when it was ingested? Not one that was only copied, or is gone."""
    try:
        about = storage.state_of(file)
        if about == (seen.size, seen.modified_ns):
            return False
        return about.size != seen.size or _digest(file, about.size) != seen.digest
    except OSError:  # it is gone, which is for a recorder to decide
        return False


def _digest(file: str, size: int) -> str:
    digest = blake2b(digest_size=16)
    with storage.opened(file) as opened:
        digest.update(opened.read(_SAMPLE))
        if size > 2 * _SAMPLE:
            opened.seek(size - _SAMPLE)
        digest.update(opened.read(_SAMPLE))
    return digest.hexdigest()
