"""A file that notes the messages of the current batch, so that a later run counts what may be on both sides.

No broker acknowledges an acknowledgement: when a process is killed between the confirm of a message and its
acknowledgement, the message is at its new place and in the queue. The next run over the queue finds the digests of
that batch here, and counts the redelivered messages that are equal. Counts of runs that could not report them, since
they were killed, too, are kept in the first bytes of the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.workbench.held_message import HeldMessage

DIGEST = 16
"""Bytes of a digest."""

COUNT = 8
"""Bytes of the count in front of the digests."""

RETURN_DELAY = 180.0
"""Seconds after which a broker has returned what a run held that is dead: three times RabbitMQ's heartbeat."""


class QueueBusy(Exception):
    """Another process of this machine works on the queue."""


class BatchJournal:
    """The journal of one queue, held by one process at a time."""

    def __init__(self, directory: Path, broker: str, vhost: str, queue: str) -> None:
        name = hashlib.sha256("\0".join((broker, vhost, queue)).encode("utf-8", "surrogateescape")).hexdigest()
        self._path = directory / f"{name[:32]}.batch"
        self._file = -1
        self.repeats = 0
        """Suspects that were done again since the last run that was completed; an upper bound after several kills."""
        self._suspects: Counter[bytes] = Counter()
        self._seen: Counter[bytes] = Counter()
        self._is_old = False

    def __enter__(self) -> BatchJournal:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise QueueBusy("another run works on this queue") from None
        state = os.fstat(self._file)
        self._is_old = time.time() - state.st_mtime > RETURN_DELAY
        data = os.pread(self._file, state.st_size, 0)
        self.repeats = int.from_bytes(data[:COUNT])
        self._suspects.update(data[at : at + DIGEST] for at in range(COUNT, len(data) - DIGEST + 1, DIGEST))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    @property
    def suspects(self) -> int:
        """Messages of an earlier run that may be on both sides, less those met again."""
        return self._suspects.total()

    def see(self, message: HeldMessage) -> None:
        """Note that a message is in the queue, so that it stays a suspect if it stays there."""
        if self._suspects and message.is_redelivered and self._suspects[message.digest] > 0:
            self._seen[message.digest] += 1

    def meet(self, message: HeldMessage) -> None:
        """Count a message that is done now, if an earlier run may have dealt with it; each one counts once."""
        if not self._suspects or not message.is_redelivered:
            return
        digest = message.digest
        if self._suspects[digest] > 0:
            self._suspects[digest] -= 1
            self._seen[digest] -= 1
            self.repeats += 1

    def begin(self, messages: Iterable[HeldMessage]) -> None:
        """Note the messages of a batch before they are sent, in place of the batch before it.

        Call it only after an answer of the source that came behind the last acknowledgements. Suspects that were not
        met stay.
        """
        batch = Counter(message.digest for message in messages)
        # Killed behind the acknowledgements, this run could not count those of the batch any more.
        repeats = self.repeats + (batch & self._suspects).total()
        self._write(repeats, self._suspects | batch)

    def _write(self, repeats: int, digests: Counter[bytes]) -> None:
        data = repeats.to_bytes(COUNT) + b"".join(digests.elements())
        place = 0
        try:
            while place < len(data):
                place += os.pwrite(self._file, data[place:], place)
            os.ftruncate(self._file, len(data))
        except OSError as error:
            raise MoveFailed(f"journal {self._path}: {error.strerror}") from None

    def clear(self, *, is_whole: bool) -> None:
        """Forget the batch: the source has answered behind its acknowledgements.

        If the pass has seen the whole queue, suspects that are not in it are forgotten, too, unless the broker may
        still return them from a connection that it does not know to be dead.
        """
        if is_whole and self._is_old:
            self._suspects &= self._seen
        self._write(0, self._suspects)
