"""The files of a recording, written in sequence; each complete under its final name, the oldest deleted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from amqproxy.capture.packet_pieces import Pieces
from amqproxy.configuration.config import RecordConfig
from amqproxy.process.log import logger
from amqproxy.recording.entry import Entry, FileEnd
from amqproxy.recording.maintenance_thread import MaintenanceThread
from amqproxy.recording.recording_directory import RecordingDirectory, completed, is_at, reason_of
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.recording.recording_ring import RecordingRing

END_PATIENCE_NS = 1_000_000_000
"""Nanoseconds until the next file begins without the entry that was asked for."""

RETRY_NS = 5_000_000_000
"""Nanoseconds between attempts to use a failed disk."""

SYNC_NS = 1_000_000_000
"""Nanoseconds between syncs and checks of the file: about as much is lost in a power loss."""

LOOK_NS = 60_000_000_000
"""Nanoseconds between checks whether other processes recording here have left their files to this one."""

WRITE_BACK_BYTES = 8 * 1024 * 1024
"""Bytes after which write-back is requested, so that a sync has little to wait for."""

MOST_PIECES = 1000
"""Buffers in one `writev`, which accepts 1024."""

_SECOND = 1_000_000_000


class RecordingFiles:
    """Writes entries into files as configured by `config`; blocks, for use by one thread.

    Frames that the disk refuses are counted as `lost`, with the `error`; every RETRY_NS another file is tried. The
    current file has its final name suffixed with `.partial`; it exists while the disk works, possibly without packets.
    `clock` is the time of day, `timer` counts monotonic nanoseconds.

    The next file begins behind an entry with `FileEnd`, which `ask_for_end` requests, so that the new file has the
    states of all sessions; without it, or if the entry does not come, it begins at once.
    """

    def __init__(
        self,
        config: RecordConfig,
        clock: Callable[[], int] = time.time_ns,
        timer: Callable[[], int] = time.monotonic_ns,
        ask_for_end: Callable[[], None] | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._timer = timer
        self._ask_for_end = ask_for_end
        self._asked_ns: int | None = None
        self._ends_due = 0
        self._directory = RecordingDirectory(Path(config.directory))
        self._ring = RecordingRing(config.files, config.total_size)
        self._encoder = RecordingEncoder(config.legs, config.body)
        self._most = config.file_size
        if config.total_size is not None:
            self._most = min(self._most, config.total_size // 2)
        self._maintenance: MaintenanceThread | None = None
        self._path: Path | None = None
        self._descriptor = -1
        self._written = 0
        self._written_back = 0
        self._head = 0
        self._first_ns = 0
        self._looked_ns = self._listed_ns = timer()
        self._failed_ns = 0
        self._is_synced = True
        self._is_interrupted = False
        self._is_ring_full = False
        self.is_closed = False
        self.progress = 0
        """A counter that changes whenever the disk makes progress."""
        self.lost = 0
        self.error = ""

    # --- status, for any thread

    @property
    def file(self) -> str:
        """The path of the current file; "" if there is none."""
        path = self._path
        return "" if path is None else str(path)

    @property
    def count(self) -> int:
        """Number of recordings in the directory, including the current file if it has packets."""
        return self._ring.count + self._has_packets

    @property
    def size(self) -> int:
        """Total size of all recordings in bytes."""
        return self._ring.size + self._written

    @property
    def packets(self) -> int:
        """Number of packets written into all files of this recording."""
        return self._encoder.packets

    # --- the writing thread

    def open(self) -> None:
        """Create the directory if necessary, and begin the first file. `OSError`.

        Files left by a crash are completed later, in the maintenance thread.
        """
        self._directory.path.mkdir(exist_ok=True)
        try:
            self._directory.enter()
            self._begin_file()
        except OSError:
            self._give_up_file()
            self._directory.leave()
            raise
        self._maintenance = MaintenanceThread(self._directory, self._ring, compresses=self._config.compress)
        self._maintenance.recover()

    def write(self, entries: list[Entry]) -> None:
        """Write entries, rotating the file as necessary."""
        start = 0
        for place, entry in enumerate(entries) if self._ends_due else ():
            if isinstance(entry.event, FileEnd):
                self._write(entries[start:place])
                start = place + 1
                self._ends_due -= 1
                if self._asked_ns is not None:
                    self._rotate()
        self._write(entries[start:] if start else entries)

    def _write(self, entries: list[Entry]) -> None:
        encoder = self._encoder
        made = encoder.made
        made.take()  # packets left there by an internal error are counted as lost
        first = 0
        for place, (entry, cuts) in enumerate(zip(entries, encoder.find_cuts(entries), strict=True)):
            if self._descriptor < 0:
                encoder.lose(entry)
                self.lost += entry.frames
                first = place + 1
                continue
            encoder.add(entry, cuts)
            if self._written + made.size >= self._most or made.count >= MOST_PIECES - 16:
                self._write_pieces(made.take(), entries[first : place + 1])
                first = place + 1
                if self._written >= self._most:
                    self._rotate_soon()
        self._write_pieces(made.take(), entries[first:])

    def tick(self) -> None:
        """Rotate the file if it is old enough, retry a failed disk, sync, and enforce the ring's bounds."""
        now = self._timer()
        if self.error and now - self._failed_ns >= RETRY_NS:
            self._try_again()
        if self._has_packets and now - self._first_ns >= self._config.file_age * _SECOND:
            self._rotate_soon()
        if self._asked_ns is not None and now - self._asked_ns >= END_PATIENCE_NS:
            self._rotate()
        if now - self._looked_ns >= SYNC_NS:
            self._looked_ns = now
            self._try(self._check)
            self._keep_ring()
        elif self._is_ring_full:
            self._keep_ring()
        if self._maintenance is not None and self._directory.has_others and now - self._listed_ns >= LOOK_NS:
            self._listed_ns = now
            self._maintenance.recover()

    def close(self) -> None:
        """Complete the last file, and wait until all files are compressed."""
        self._end_file()
        self.is_closed = True
        if self._maintenance is not None:
            self._maintenance.finish()
        self._keep_ring()
        self._directory.leave()

    # --- one file

    @property
    def _has_packets(self) -> bool:
        return self._written > self._head

    def _begin_file(self) -> None:
        now = self._clock()
        self._path, self._descriptor = self._directory.create(now)
        self._written = self._written_back = self._head = 0
        head = self._encoder.begin(now)
        try:
            self._write_all([head])
        finally:
            self._head = len(head)
        self._asked_ns = None

    def _rotate_soon(self) -> None:
        """Ask the sessions to end the file between frames; rotate it at once if they cannot be asked."""
        if self._ask_for_end is None:
            self._rotate()
        elif self._asked_ns is None:
            self._asked_ns = self._timer()
            self._ends_due += 1
            self._ask_for_end()

    def _rotate(self) -> None:
        """Complete the file, and begin another."""
        if self._end_file():
            self._try(self._begin_file)
            self._keep_ring()

    def _end_file(self) -> bool:
        """Complete the current file, or delete it if it has no packets; return whether the disk works."""
        if self._path is None:
            return False
        return self._try(self._complete_file, self._path)

    def _complete_file(self, path: Path) -> None:
        if self._has_packets:
            self._write_all([self._encoder.statistics(self._clock())])
            os.fsync(self._descriptor)
        self._finish_file(path)
        self._forget_file()
        self._directory.sync()

    def _finish_file(self, path: Path) -> None:
        if not self._has_packets:
            path.unlink(missing_ok=True)
            return
        file = completed(path)
        self._ring.add(file, self._written)
        if self._maintenance is not None:
            self._maintenance.compress(file)

    def _forget_file(self) -> None:
        with suppress(OSError):
            os.close(self._descriptor)
        self._descriptor, self._path, self._written, self._head = -1, None, 0, 0

    def _check(self) -> None:
        """Sync the file, and check that it is still found under its name."""
        if self._path is None:
            return
        if not self._is_synced:
            os.fdatasync(self._descriptor)
            self._is_synced = True
            self.progress += 1
        if is_at(self._descriptor, self._path):
            self._directory.enter()
        else:
            self._fail("the file was deleted or moved")

    def _write_pieces(self, pieces: Pieces, entries: list[Entry]) -> None:
        if not pieces:
            return
        is_first = not self._has_packets
        if self._try(self._write_all, pieces):
            self._encoder.note_written()
            if is_first:
                self._first_ns = self._timer()
                self._keep_ring()
                self._note_success()
            return
        self._encoder.note_unwritten(entries)
        self.lost += sum(entry.frames for entry in entries)

    def _write_all(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Write all pieces, or none. `OSError`."""
        size = sum(map(len, pieces))
        self._is_synced = False
        try:
            done = 0
            for start in range(0, len(pieces), MOST_PIECES):
                some = pieces[start : start + MOST_PIECES]
                done = os.writev(self._descriptor, some)
                if done < sum(map(len, some)):
                    rest = memoryview(b"".join(some))[done:]
                    while rest:
                        rest = rest[os.write(self._descriptor, rest) :]
                self.progress += 1
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._written)
                os.lseek(self._descriptor, self._written, os.SEEK_SET)
            raise
        self._written += size
        if self._written - self._written_back >= WRITE_BACK_BYTES:
            self._write_back()

    def _write_back(self) -> None:
        """Start write-back of new data, and drop older pages from the page cache unless the file will be compressed.

        This leaves the page cache to other processes, and reuses its pages while they are fast.
        """
        start = self._written_back
        if not self._config.compress:
            start = max(0, start - 8 * WRITE_BACK_BYTES)
        self._written_back = self._written
        with suppress(OSError, AttributeError):  # not available outside Linux and BSD
            os.posix_fadvise(self._descriptor, start, self._written - start, os.POSIX_FADV_DONTNEED)

    # --- a disk that fails

    def _try(self, do: Callable[..., None], *given: object) -> bool:
        try:
            do(*given)
        except OSError as error:
            self._fail(reason_of(error))
            return False
        return True

    def _fail(self, reason: str) -> None:
        """Give up the current file, and record nothing until the next retry."""
        if not self._is_interrupted:
            self._is_interrupted = True
            logger().error("recording interrupted", directory=self._config.directory, reason=reason)
        self.error = reason
        self._failed_ns = self._timer()
        self._give_up_file()

    def _give_up_file(self) -> None:
        if self._path is not None:
            with suppress(OSError):
                self._finish_file(self._path)
            self._forget_file()

    def _try_again(self) -> None:
        try:
            self._directory.path.mkdir(exist_ok=True)
            self._directory.enter()
            self._keep_ring()
            self._begin_file()
        except OSError as error:
            self._fail(reason_of(error))
            return
        self.error = ""
        if self._maintenance is not None:
            self._maintenance.recover()  # files that could not be renamed to their final names

    def _note_success(self) -> None:
        """Log the end of an interruption: only written packets show that the disk works again."""
        if self._is_interrupted:
            self._is_interrupted = False
            logger().info("recording goes on", directory=self._config.directory, lost=self.lost)

    def _keep_ring(self) -> None:
        """Delete the oldest recordings that exceed the bounds."""
        self._is_ring_full = self._ring.keep(int(self._has_packets), self._written)
