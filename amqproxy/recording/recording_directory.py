"""The directory of recordings: file names, ownership by recorders, and recovery after a crash."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from struct import Struct

from amqproxy.process.log import logger

SUFFIX = ".pcapng"
PARTIAL = ".partial"
"""Suffix of an incomplete file, which its writer has locked."""
COMPRESSED = ".zst"
PREFIX = "amqproxy-"

MODE = 0o640
"""Mode of new files before the umask; recordings contain message bodies."""

_NAME = re.compile(
    rf"{PREFIX}\d{{8}}T\d{{6}}\.\d{{6}}Z-(\d+){re.escape(SUFFIX)}({re.escape(COMPRESSED)})?({re.escape(PARTIAL)})?",
    re.ASCII,
)
"""Other files in the directory are not recordings, and are left alone."""

_LOCK = re.compile(r"\.amqproxy-(\d+)\.lock", re.ASCII)
_NUMBERS = range(10**9, 10**10)
"""Numbers of recorders, of equal length in file names."""

_LENGTHS = Struct("<2I")
_BLOCK_FRAME = 12
_PACKET = 6
_PIECE = 4 * 1024 * 1024


class RecordingDirectory:
    """The recordings in `path`, including other proxies': `amqproxy-20261122T174700.123456Z-4711003421.pcapng`.

    Names sort by the time at which the recordings begin; the last number is the recorder's, drawn at random, so that
    its files are never taken for those of another container, or of a process before a restart. A process that records
    here holds a lock on `.amqproxy-4711003421.lock`, which distinguishes its files from orphaned ones.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.has_others = False
        """Whether another process was recording here at the last call of `complete`."""
        self._last_ns = 0
        self._number = secrets.choice(_NUMBERS)
        self._lock = -1

    def enter(self) -> None:
        """Lock the directory for this process, again if the lock file was deleted. `OSError`."""
        if self._lock >= 0 and is_at(self._lock, self._lock_path):
            return
        self._unlock()
        while self._lock < 0:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_at(descriptor, self._lock_path):
                    self._lock, descriptor = descriptor, -1
            except BlockingIOError:
                self._number = secrets.choice(_NUMBERS)
            finally:
                if descriptor >= 0:
                    os.close(descriptor)

    def leave(self) -> None:
        """Release the lock, after which other recording processes may delete old files of this one."""
        with suppress(OSError):
            if self._lock >= 0 and is_at(self._lock, self._lock_path):
                self._lock_path.unlink()
        self._unlock()

    def create(self, now_ns: int) -> tuple[Path, int]:
        """Create a partial file and return it with its locked descriptor.

        Its name sorts after all earlier ones, even if the clock was set back.
        """
        now_ns = max(now_ns, self._last_ns)
        while True:
            file = self.path / f"{PREFIX}{_timestamp(now_ns)}-{self._number}{SUFFIX}{PARTIAL}"
            now_ns += 1000
            if any(os.path.lexists(each) for each in _final_names(file)):
                continue
            try:
                descriptor = open_locked(file)
            except (FileExistsError, BlockingIOError):  # left by a crash, or just recovered by another process
                continue
            self._last_ns = now_ns
            self.sync()
            return file, descriptor

    def complete(self) -> dict[Path, int]:
        """Return the complete recordings with their sizes, oldest first, except those of other recording processes."""
        others = {lock[1] for lock in self._named(_LOCK) if lock[1] != str(self._number) and self._is_held(lock.string)}
        self.has_others = bool(others)
        found = {}
        for name in self._named(_NAME):
            if name[3] or name[1] in others:
                continue
            file = self.path / name.string
            with suppress(FileNotFoundError):
                about = file.lstat()
                if stat.S_ISREG(about.st_mode):
                    found[file] = about.st_size
        return found

    def recover(self) -> list[Path]:
        """Complete and return partial files left by a crash, cut after the last whole block, under their final names.

        Files without a packet are deleted, as are half-compressed ones. Files that cannot be completed are logged and
        left.
        """
        recovered = []
        for name in self._named(_NAME):
            if not name[3]:
                continue
            file = self.path / name.string
            try:
                if self._recovered(file, is_compressed=bool(name[2])):
                    recovered.append(file.with_name(file.name.removesuffix(PARTIAL)))
            except OSError as error:
                logger().warning("recording not recovered", file=str(file), reason=reason_of(error))
        if recovered:
            self.sync()
        return recovered

    def sync(self) -> None:
        """Sync the directory, so that the file names survive a power loss."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError:
            pass  # not all file systems support it; the files themselves are synced separately
        finally:
            os.close(descriptor)

    def _recovered(self, file: Path, *, is_compressed: bool) -> bool:
        with _locked(file) as descriptor:
            if descriptor < 0:
                return False  # it is still being written
            end = 0 if is_compressed else _end_of_blocks(descriptor)  # its uncompressed source still exists
            if not end:
                file.unlink()
                return False
            os.ftruncate(descriptor, end)
            os.fsync(descriptor)
            completed(file)
            return True

    @property
    def _lock_path(self) -> Path:
        return self.path / f".amqproxy-{self._number}.lock"

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _is_held(self, lock: str) -> bool:
        """Whether another process holds a lock file; if not, delete it as left by a crash."""
        path = self.path / lock
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # possibly another user's
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(descriptor, path):
                path.unlink()
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _named(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        with os.scandir(self.path) as entries:
            found = [name for each in entries if (name := pattern.fullmatch(each.name))]
        return sorted(found, key=lambda name: name.string)


def is_recording(name: str) -> bool:
    """Whether a file name is one that recorders give, complete or not."""
    return _NAME.fullmatch(name) is not None


def reason_of(error: OSError) -> str:
    """Return the operating system's reason for a failure, in words."""
    return error.strerror or str(error)


def open_locked(file: Path) -> int:
    """Create a file that stays locked until its descriptor is closed. `FileExistsError` if it exists.

    `BlockingIOError` if another process takes it for one left by a crash before it is locked.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_at(descriptor, file):
            raise BlockingIOError(errno.EAGAIN, "it was deleted by another process")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def is_at(descriptor: int, file: Path) -> bool:
    """Whether an open file is still found under its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.lstat())
    except FileNotFoundError:
        return False


def completed(file: Path) -> Path:
    """Rename a partial file to its final name, and return that."""
    return file.rename(file.with_name(file.name.removesuffix(PARTIAL)))


def _final_names(partial: Path) -> Iterable[Path]:
    file = partial.with_name(partial.name.removesuffix(PARTIAL))
    return file, file.with_name(file.name + COMPRESSED)


@contextmanager
def _locked(file: Path) -> Iterator[int]:
    """Yield the locked descriptor of a file; -1 if another process holds the lock or the file is gone."""
    with ExitStack() as stack:
        descriptor = -1
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not is_at(descriptor, file):
                descriptor = -1
        except OSError:
            descriptor = -1
        yield descriptor


def _end_of_blocks(descriptor: int) -> int:
    """Return the end of the last whole pcapng block; 0 if no packet precedes it."""
    size = os.fstat(descriptor).st_size
    end = start = 0
    piece = b""
    has_packets = False
    while end + _BLOCK_FRAME <= size:
        if not start <= end <= start + len(piece) - _LENGTHS.size:
            start, piece = end, os.pread(descriptor, _PIECE, end)
            if len(piece) < _LENGTHS.size:
                break
        kind, length = _LENGTHS.unpack_from(piece, end - start)
        if length < _BLOCK_FRAME or end + length > size:
            break
        has_packets |= kind == _PACKET
        end += length
    return end if has_packets else 0


def _timestamp(now_ns: int) -> str:
    seconds, rest = divmod(now_ns, 1_000_000_000)
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(seconds)) + f".{rest // 1000:06d}Z"
