"""The directory that recordings are in: their names, whose they are, and what a crash has left."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from struct import Struct

from amqproxy.process.log import logger

SUFFIX = ".pcapng"
PARTIAL = ".partial"
"""Behind the name of a file that is not complete; who writes it has locked it."""
COMPRESSED = ".zst"
PREFIX = "amqproxy-"

MODE = 0o640
"""Of new files, before the umask: bodies of messages are in them."""

_NAME = re.compile(
    rf"{PREFIX}\d{{8}}T\d{{6}}\.\d{{6}}Z-(\d+){re.escape(SUFFIX)}({re.escape(COMPRESSED)})?({re.escape(PARTIAL)})?",
    re.ASCII,
)
"""What else is in the directory is not ours, and is left alone."""

_LOCK = re.compile(r"\.amqproxy-(\d+)\.lock", re.ASCII)
_OTHER_NUMBER = 1 << 22
"""Linux has no process of a higher number."""

_LENGTHS = Struct("<2I")
_BLOCK_FRAME = 12
_PACKET = 6
_PIECE = 4 * 1024 * 1024


class RecordingDirectory:
    """The recordings in `path`, those of other proxies among them: `amqproxy-20261122T174700.123456Z-4711.pcapng`.

    The names sort by the time at which they begin; the last number is the process. Who is recording here has locked
    `.amqproxy-4711.lock`: so its files can be told from those that no process owns any more. Where another has that
    number, as in another container, there is another one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.has_others = False
        """Was another process recording here when `complete` was called last?"""
        self._last_ns = 0
        self._number = os.getpid()
        self._lock = -1

    def enter(self) -> None:
        """Record here from now on; again, where the sign of it was deleted. `OSError`."""
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
                self._number += _OTHER_NUMBER
            finally:
                if descriptor >= 0:
                    os.close(descriptor)

    def leave(self) -> None:
        """Record here no more: who else does may delete what is old."""
        with suppress(OSError):
            if self._lock >= 0 and is_at(self._lock, self._lock_path):
                self._lock_path.unlink()
        self._unlock()

    def create(self, now_ns: int) -> tuple[Path, int]:
        """A new file, which is partial, and its descriptor; it is locked. Its name sorts behind those before it, also
        where the clock has been set back."""
        now_ns = max(now_ns, self._last_ns)
        while True:
            file = self.path / f"{PREFIX}{_timestamp(now_ns)}-{self._number}{SUFFIX}{PARTIAL}"
            now_ns += 1000
            if any(os.path.lexists(each) for each in _final_names(file)):
                continue
            try:
                descriptor = open_locked(file)
            except (FileExistsError, BlockingIOError):  # one that a crash has left; another recovers it
                continue
            self._last_ns = now_ns
            self.sync()
            return file, descriptor

    def complete(self) -> dict[Path, int]:
        """The complete recordings with their sizes, the oldest first: but for those of others that record here now."""
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
        """Complete what a crash has left, and return it: cut behind the last whole block, under its final name.

        One without a packet is deleted, as is what was half compressed. What cannot be completed is logged, and left.
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
        """Have the names of the files survive a loss of power."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError:
            pass  # not all file systems can; the files' bytes are synced by themselves
        finally:
            os.close(descriptor)

    def _recovered(self, file: Path, *, is_compressed: bool) -> bool:
        with _locked(file) as descriptor:
            if descriptor < 0:
                return False  # it is being written
            end = 0 if is_compressed else _end_of_blocks(descriptor)  # what it was made of is still there
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
        """Has a process locked it? If not, it is deleted: a crash has left it."""
        path = self.path / lock
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # of another user, perhaps
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


def reason_of(error: OSError) -> str:
    """Why a file cannot be used, in words."""
    return error.strerror or str(error)


def open_locked(file: Path) -> int:
    """A new file that is locked until its descriptor is closed. `FileExistsError` where there is one.

    `BlockingIOError` where another takes it for one that a crash has left, before it is locked.
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
    """Is an open file still found under its name?"""
    try:
        return os.path.samestat(os.fstat(descriptor), file.lstat())
    except FileNotFoundError:
        return False


def completed(file: Path) -> Path:
    """Give a partial file its final name, which it is returned under."""
    return file.rename(file.with_name(file.name.removesuffix(PARTIAL)))


def _final_names(partial: Path) -> Iterable[Path]:
    file = partial.with_name(partial.name.removesuffix(PARTIAL))
    return file, file.with_name(file.name + COMPRESSED)


@contextmanager
def _locked(file: Path) -> Iterator[int]:
    """The descriptor of a file, locked from here on; -1 if another process has locked it, or it is there no more."""
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
    """Where the last whole block of a pcapng file ends; 0 where there is no packet before that."""
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
