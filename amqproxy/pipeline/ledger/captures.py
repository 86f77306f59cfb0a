"""Captures as they were when they were ingested, to detect changes."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import msgspec

from amqproxy.pipeline import storage

_SAMPLE = 64 * 1024
"""Bytes at each end of a capture that are compared to detect changes."""


class Capture(msgspec.Struct, frozen=True):
    """A capture file as it was when it was ingested."""

    path: str
    size: int
    modified_ns: int
    digest: str
    """Digest of the two ends of the file."""


def present(file: str) -> str:
    """Return the present name of a capture, which a recorder compresses some time after closing it."""
    if not Path(file).exists():
        for ending in (".zst", ".gz", ".lz4"):
            if Path(file + ending).exists():
                return file + ending
    return file


def capture_of(file: str) -> Capture:
    """Return the facts to remember about a capture; its name alone if it is gone."""
    try:
        about = storage.state_of(file)
        return Capture(file, about.size, about.modified_ns, _digest(file, about.size))
    except FileNotFoundError:  # deleted since it was read, for example by a recorder with a limit
        return Capture(file, -1, -1, "")


def has_changed(file: str, seen: Capture) -> bool:
    """Whether a capture's content has changed since it was ingested; `False` if it was only copied, or is gone."""
    try:
        about = storage.state_of(file)
        if about == (seen.size, seen.modified_ns):
            return False
        return about.size != seen.size or _digest(file, about.size) != seen.digest
    except OSError:  # deleted, which is a recorder's decision
        return False


def _digest(file: str, size: int) -> str:
    digest = blake2b(digest_size=16)
    with storage.opened(file) as opened:
        digest.update(opened.read(_SAMPLE))
        if size > 2 * _SAMPLE:
            opened.seek(size - _SAMPLE)
        digest.update(opened.read(_SAMPLE))
    return digest.hexdigest()
