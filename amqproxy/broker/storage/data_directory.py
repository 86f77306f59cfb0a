"""The directory of a store: locked against other processes, with files that survive a loss of power."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

LOCK_NAME = "lock"

_MARK = "user.amqproxy.store"
"""An extended attribute of the directory, which outlasts all files in it; not every file system has them."""

ROOM_AND_RIGHTS = "see whether the disk has room, and who may write there, or name another directory"


class StoreError(Exception):
    """The store cannot be opened, or read; the text gives the place, the reason and a remedy."""


def lock(directory: Path) -> int:
    """Lock the directory against other processes while the returned descriptor is open and this process lives."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / LOCK_NAME, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise StoreError(f"{directory} cannot be used: {error.strerror}; {ROOM_AND_RIGHTS}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(descriptor, 20, 0).decode("ascii", "replace")
        os.close(descriptor)
        who = f"another process ({owner})" if owner else "another process"
        raise StoreError(f"{directory} is in use by {who}; stop that one, or name another directory") from None
    with suppress(OSError):  # a full disk: then the file stays empty
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def sync(directory: Path) -> None:
    """Flush a directory, so that files created in it survive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mark(directory: Path) -> None:
    """Mark the directory as having contained a database, if the file system supports extended attributes."""
    with suppress(OSError, AttributeError):  # the attribute is missing outside Linux
        os.setxattr(directory, _MARK, b"")


def had_store(directory: Path) -> bool:
    """Whether a database was in the directory before: goes by its mark, and by the lock that its broker left."""
    with suppress(OSError, AttributeError):
        if _MARK in os.listxattr(directory):
            return True
    return (directory / LOCK_NAME).exists()
