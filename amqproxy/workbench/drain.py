"""Writes messages to a file, on the disk before they are acknowledged."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.queue_pass import KEPT, Outcome

Encode = Callable[[HeldMessage], bytes]
"""Returns the bytes of a message in the file."""


class Drain:
    """An action that appends each batch to a new file, and calls fsync before it counts as done.

    A dry run writes nothing.
    """

    def __init__(self, path: Path, encode: Encode, *, begin: bytes = b"", is_dry_run: bool = False) -> None:
        """Create the file; raise `MoveFailed` if it exists or cannot be made."""
        self.uncertain = 0
        self._encode = encode
        self._is_dry_run = is_dry_run
        self._path = path
        self._file = -1
        if is_dry_run:
            if path.exists():
                raise MoveFailed(f"{path} exists: a drain begins a new file")
            return
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._append(begin)
            _sync_directory(path)
        except FileExistsError:
            raise MoveFailed(f"{path} exists: a drain begins a new file") from None
        except OSError as error:
            raise MoveFailed(f"{path} cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
        if self._is_dry_run:
            return [KEPT] * len(messages)
        before = os.fstat(self._file).st_size
        try:
            for message in messages:
                self._append(self._encode(message))
            os.fsync(self._file)
        except OSError as error:
            try:
                os.ftruncate(self._file, before)
            except OSError:
                self.uncertain = len(messages)  # they may be in the file
            raise MoveFailed(f"{self._path} cannot be written: {error.strerror}") from None
        return [""] * len(messages)

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]


def _sync_directory(path: Path) -> None:
    """Put the file's name on the disk."""
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
