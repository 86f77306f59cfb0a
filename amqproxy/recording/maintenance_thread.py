"""The thread that completes and compresses recordings, so that writing the next one does not wait for it."""

from __future__ import annotations

import math
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from amqproxy.capture.compression import CHUNK_BYTES, zstd
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained
from amqproxy.recording.recording_directory import (
    COMPRESSED,
    PARTIAL,
    SUFFIX,
    RecordingDirectory,
    completed,
    open_locked,
)
from amqproxy.recording.recording_ring import RecordingRing

OPTIONS: dict[int, int] = {zstd.CompressionParameter.compression_level: 3, zstd.CompressionParameter.checksum_flag: 1}
FINISH_TIMEOUT = 3.0
"""Seconds after the end of a recording during which files of earlier recordings are still compressed."""

ATTEMPTS = 3
"""Attempts to compress a file while another process interferes."""

NICENESS = 10
"""Nice value of this thread, below the relay's priority."""


class MaintenanceThread:
    """Runs slow jobs on the complete files in `directory`, one at a time, and reports the results to `ring`.

    Files are compressed if it `compresses`. The constructor starts the thread.
    """

    def __init__(self, directory: RecordingDirectory, ring: RecordingRing, *, compresses: bool) -> None:
        self._directory = directory
        self._ring = ring
        self._compresses = compresses
        self._has_failed = False
        self._last_old_at = math.inf
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="amqproxy-recordings", daemon=True)
        self._thread.start()

    def recover(self) -> None:
        """Complete the partial files left by a crash or a disk failure, and register all recordings with the ring."""
        self._jobs.put(self._recover)

    def compress(self, file: Path) -> None:
        """Compress a complete file."""
        if self._compresses:
            self._jobs.put(lambda: self._compress(file))

    def finish(self) -> None:
        """Wait until all jobs are done; files of earlier recordings may stay uncompressed until the next recording."""
        self._last_old_at = time.monotonic() + FINISH_TIMEOUT
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while (job := self._jobs.get()) is not None:
            with contained("recordings not maintained"):
                job()

    def _recover(self) -> None:
        recovered = self._directory.recover()
        if recovered:
            logger().info("recordings recovered", files=len(recovered))
        files = self._directory.complete()
        for file in [*files]:
            if file.suffix == SUFFIX and file.with_name(file.name + COMPRESSED) in files:
                file.unlink(missing_ok=True)  # a crash prevented its deletion
                del files[file]
        self._ring.found(files)
        for file in files:
            if file.suffix == SUFFIX:
                self._compress_old(file)

    def _compress_old(self, file: Path) -> None:
        if self._compresses and time.monotonic() < self._last_old_at:
            self._compress(file)

    def _compress(self, file: Path) -> None:
        try:
            found = _compressed(file)
            self._ring.compressed(found, found.stat().st_size)
        except FileNotFoundError:
            self._ring.gone(file)  # the ring has deleted it meanwhile, or an operator has
        except FileExistsError:
            pass  # another process is compressing it
        except (OSError, zstd.ZstdError) as error:
            if not self._has_failed:
                self._has_failed = True
                logger().warning("recording not compressed", file=str(file), reason=str(error))


def _compressed(file: Path) -> Path:
    """Compress a file, retrying if another process mistakes the partial result for one left by a crash."""
    for _ in range(ATTEMPTS):
        with suppress(BlockingIOError):
            return compress(file)
    return compress(file)


def compress(file: Path) -> Path:
    """Replace a file with its compressed form, atomically, and return the new path."""
    partial = file.with_name(file.name + COMPRESSED + PARTIAL)
    with file.open("rb") as source:
        descriptor = open_locked(partial)
        try:
            with open(descriptor, "wb", closefd=False) as target:
                size = os.fstat(source.fileno()).st_size
                compressor = zstd.ZstdCompressor(options=OPTIONS)
                compressor.set_pledged_input_size(size)  # shown by `zstd -l`
                while data := source.read(CHUNK_BYTES):
                    target.write(compressor.compress(data))
                target.write(compressor.flush())
                target.flush()
                os.fsync(descriptor)
            found = completed(partial)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    RecordingDirectory(file.parent).sync()
    file.unlink(missing_ok=True)
    return found
