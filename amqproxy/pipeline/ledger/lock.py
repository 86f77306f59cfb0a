"""Lock that lets one driver at a time write to tables."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from amqproxy.pipeline import storage
from amqproxy.pipeline.ledger.errors import LedgerError, Occupied
from amqproxy.pipeline.ledger.files import PRIVATE, TableFiles, reason


class DriverLock:
    """Lock held by one process; on a disk, the kernel releases it when the process ends."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._file = f"{PRIVATE}/lock"
        self._descriptor = -1

    def take(self) -> None:
        """Take the lock; raise `Occupied`."""
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "since": datetime.now(UTC).isoformat(" ", "seconds")}
        text = json.dumps(owner).encode()
        if storage.is_remote(self._root):
            self._take_remote(text)
            return
        path = Path(self._root, self._file)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(self._descriptor, 4096, 0)
            self._close()
            raise self._refused(other, "wait for it, or end it") from None
        except OSError as error:
            self._close()
            raise LedgerError(f"{self._root} cannot be written: {reason(error)}") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def release(self) -> None:
        """Release the lock."""
        if storage.is_remote(self._root):
            TableFiles(self._root).delete(self._file)
        else:
            os.ftruncate(self._descriptor, 0)
            self._close()

    def _take_remote(self, owner: bytes) -> None:
        """Take the lock in a bucket, which has no locks: drivers announce themselves in a file."""
        place = TableFiles(self._root)
        other = None
        with suppress(FileNotFoundError):
            other = place.read(self._file)
        if other is not None and not _is_dead_here(other):
            raise self._refused(other, f"wait for it; if it is gone, delete {self._root}/{self._file}")
        place.write(self._file, owner)

    def _refused(self, other: bytes, remedy: str) -> Occupied:
        try:
            owner = json.loads(other)
            who = f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
        except (ValueError, KeyError, TypeError):
            who = "another process"
        return Occupied(f"{self._root} is written by {who}: {remedy}")

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _is_dead_here(owner: bytes) -> bool:
    """Whether the owner was a process on this host that no longer exists."""
    try:
        found = json.loads(owner)
        if found["host"] != socket.gethostname():
            return False
        os.kill(int(found["pid"]), 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, PermissionError):
        return False
    return False
