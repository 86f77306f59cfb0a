"""What a directory of tables holds: which captures, in which files, committed batch by batch. No Spark is needed.

A batch is numbered, its files carry the number, and it counts when its commit has been written, which is last and
atomic:

    _pipeline/staging/N/      what Spark is writing
    _pipeline/pending/N.json  which files are about to get their names
    <table>/date=…/hour=…/batch-N-….parquet
    _pipeline/commits/N.json  from here on they are part of the table, and those that it removes are not
    _pipeline/carry/N/        what the batch leaves for the next: open messages, state of connections
    _pipeline/snapshots/N.json  all commits up to N in one, from time to time

Whatever ends a driver in between: the next one deletes what was not committed, and begins the batch again.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from amqproxy.pipeline import storage

PRIVATE = "_pipeline"
"""Spark and notebooks leave out what begins with an underscore."""

TOGETHER, APART = "is_apart=false", "is_apart=true"
"""How directories of staged files are called where some rows are for another purpose."""

VERSION = 1

SNAPSHOT_EVERY = 64
"""Commits after which all of them are put into one file."""

_SAMPLE = 64 * 1024
"""Bytes at each end of a capture by which a change of it is seen."""


class LedgerError(Exception):
    """The directory cannot be used as tables; the text says why, and what to do."""


class Occupied(LedgerError):
    """Another driver writes to these tables."""


class Capture(msgspec.Struct, frozen=True):
    """A capture file as it was when it was ingested."""

    path: str
    size: int
    modified_ns: int
    digest: str
    """Of its two ends."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that counts. Paths are relative to the directory of the tables."""

    batch: int
    job: str
    at: str
    files: dict[str, list[str]] = {}
    """What it added, by table."""
    removed: list[str] = []
    captures: dict[str, Capture] = {}
    """What it ingested, by the name that a capture has whether it is compressed or not."""
    through: int = 0
    """The last batch that the job has worked on."""
    carried: dict[str, str] = {}
    """What it leaves for the next batch of the job: directories, by name."""
    version: int = VERSION


class Contents(msgspec.Struct):
    """All commits in one."""

    batch: int = 0
    files: dict[str, list[str]] = {}
    captures: dict[str, Capture] = {}
    through: dict[str, int] = {}
    """By job."""
    carried: dict[str, dict[str, str]] = {}
    """By job."""
    removed: list[str] = []
    """By the last commit: deleted soon after it."""
    version: int = VERSION

    def add(self, commit: Commit) -> None:
        """What there is with one commit more."""
        gone = set(commit.removed)
        for name in list(self.files):
            if gone:
                self.files[name] = [file for file in self.files[name] if file not in gone]
        for name, files in commit.files.items():
            self.files.setdefault(name, []).extend(files)
        self.batch = commit.batch
        self.captures.update(commit.captures)
        if commit.through:
            self.through[commit.job] = commit.through
        if commit.carried:
            self.carried[commit.job] = commit.carried
        self.removed = commit.removed


class Found(msgspec.Struct, frozen=True):
    """Capture files, by what is to be done with them."""

    new: list[str]
    changed: list[str]
    """Ingested once, and different since then: they are not ingested again."""
    known: int
    partial: int
    """Still being written."""


def contents(path: str) -> Contents:
    """What is committed in a directory of tables. `LedgerError`; `OSError`."""
    place = _Files(path)
    for _ in range(3):
        try:
            return _contents(place)
        except FileNotFoundError:  # a snapshot took its place meanwhile
            continue
    return _contents(place)


def committed_files(path: str, table: str) -> list[str]:
    """The files of a table, relative to the directory of the tables."""
    return contents(path).files.get(table, [])


class Ledger:
    """The one driver's view of the tables in `path`: within `with` it alone writes, and what was half done is gone.

    Raises `Occupied` where another driver does; `LedgerError` for what is no directory of tables.
    """

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or path
        self._place = _Files(self.path)
        self._lock: _Lock | None = None
        self.contents = Contents()

    def __enter__(self) -> Ledger:
        self._place.make_root()
        self._lock = _Lock(self.path)
        self._lock.take()
        try:
            self.contents = _contents(self._place)
            self._recover()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._lock is not None
        self._lock.release()

    # --- captures

    def find(self, files: Iterable[str]) -> Found:
        """What of these is new."""
        from amqproxy.pipeline.chains import capture_name

        new, changed, known, partial = [], [], 0, 0
        for file in files:
            seen = self.contents.captures.get(capture_name(file))
            if file.endswith(".partial"):
                partial += 1
            elif seen is None:
                new.append(file)
            else:
                known += 1
                if seen.path == file and _has_changed(file, seen):
                    changed.append(file)
        return Found(new, changed, known, partial)

    # --- batches

    @property
    def next_batch(self) -> int:
        """The number of the batch that would be committed next."""
        return self.contents.batch + 1

    def staging(self, table: str) -> str:
        """Where Spark writes the files of the next batch, relative to the directory."""
        return f"{PRIVATE}/staging/{self.next_batch}/{table}"

    def staged_apart(self, table: str) -> list[str]:
        """The staged files with what is not of the table itself."""
        return [file for file in self._place.files_below(f"{self.staging(table)}/{APART}") if file.endswith(".parquet")]

    def size(self, file: str) -> int:
        """The bytes of a file."""
        return self._place.size(file)

    def rows(self, file: str) -> int:
        """The rows in a file."""
        return self._place.rows(file)

    def carry(self, name: str) -> str:
        """Where it writes what the next batch leaves for the one after it."""
        return f"{PRIVATE}/carry/{self.next_batch}/{name}"

    def carried(self, job: str, name: str) -> str | None:
        """Where the last batch of a job has left that."""
        return self.contents.carried.get(job, {}).get(name)

    def commit(
        self,
        job: str,
        tables: Iterable[str],
        *,
        captures: Iterable[str] = (),
        removed: Iterable[str] = (),
        through: int = 0,
        carried: Iterable[str] = (),
    ) -> Commit:
        """Make what was staged for `tables` part of them, and take the files `removed` out, all at once."""
        from amqproxy.pipeline.chains import capture_name

        batch, place = self.next_batch, self._place
        moves = {table: self._moves(table) for table in tables}
        commit = Commit(
            batch=batch,
            job=job,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            files={table: [to for _, to in pairs] for table, pairs in moves.items() if pairs},
            removed=sorted(removed),
            captures={capture_name(file): _capture(file) for file in captures},
            through=through,
            carried={name: self.carry(name) for name in carried},
        )
        place.write(f"{PRIVATE}/pending/{batch}.json", msgspec.json.encode(commit))
        for pairs in moves.values():
            for source_file, target in pairs:
                place.move(source_file, target)
        place.sync(file for files in commit.files.values() for file in files)
        place.sync(file for path in commit.carried.values() for file in place.files_below(path))
        place.write(f"{PRIVATE}/commits/{batch:08}.json", msgspec.json.encode(commit))
        before = {path for each in self.contents.carried.values() for path in each.values()}
        self.contents.add(commit)
        after = {path for each in self.contents.carried.values() for path in each.values()}
        self._sweep(batch, commit.removed, before - after)
        if batch % SNAPSHOT_EVERY == 0:
            self._snapshot()
        return commit

    def _moves(self, table: str) -> list[tuple[str, str]]:
        """Each staged file, and its name in the table."""
        staged = self.staging(table)
        pairs = []
        for number, file in enumerate(self._place.files_below(staged)):
            partition = file.removeprefix(f"{staged}/").removeprefix(f"{TOGETHER}/").rpartition("/")[0]
            if not file.endswith(".parquet") or partition.startswith(APART):
                continue
            name = f"batch-{self.next_batch:08}-{number}.zstd.parquet"
            pairs.append((file, "/".join(filter(None, (table, partition, name)))))
        return pairs

    def _sweep(self, batch: int, removed: Iterable[str], uncarried: Iterable[str]) -> None:
        """Delete what is not needed after a commit; where this fails, the next driver does it."""
        place = self._place
        for file in removed:
            place.delete(file)
        for directory in uncarried:
            place.delete_directory(directory)
        place.delete_directory(f"{PRIVATE}/staging/{batch}")
        place.delete(f"{PRIVATE}/pending/{batch}.json")

    def _recover(self) -> None:
        """Delete what was never committed, and what the last commit removed."""
        place, contents = self._place, self.contents
        for name in place.names(f"{PRIVATE}/pending"):
            with suppress(msgspec.DecodeError, FileNotFoundError):  # cut short: nothing had its name yet
                pending = msgspec.json.decode(place.read(f"{PRIVATE}/pending/{name}"), type=Commit)
                if pending.batch > contents.batch:
                    for files in pending.files.values():
                        for file in files:
                            place.delete(file)
            place.delete(f"{PRIVATE}/pending/{name}")
        for file in contents.removed:
            place.delete(file)
        place.delete_directory(f"{PRIVATE}/staging")
        used = {path.split("/")[2] for each in contents.carried.values() for path in each.values()}
        for name in place.names(f"{PRIVATE}/carry"):
            if name not in used:
                place.delete_directory(f"{PRIVATE}/carry/{name}")

    def _snapshot(self) -> None:
        """All commits in one file; those before the last snapshot are deleted, which a reader may still be reading."""
        place, batch = self._place, self.contents.batch
        older = place.names(f"{PRIVATE}/snapshots")
        place.write(f"{PRIVATE}/snapshots/{batch:08}.json", msgspec.json.encode(self.contents))
        for name in older[:-1]:
            place.delete(f"{PRIVATE}/snapshots/{name}")
        for name in place.names(f"{PRIVATE}/commits"):
            if older and name <= older[-1]:
                place.delete(f"{PRIVATE}/commits/{name}")


def _contents(place: _Files) -> Contents:
    snapshots = place.names(f"{PRIVATE}/snapshots")
    found = Contents()
    if snapshots:
        found = _decoded(place, f"{PRIVATE}/snapshots/{snapshots[-1]}", Contents)
    for name in place.names(f"{PRIVATE}/commits"):
        if int(name.partition(".")[0]) > found.batch:
            found.add(_decoded(place, f"{PRIVATE}/commits/{name}", Commit))
    return found


def _decoded(place: _Files, path: str, kind: type[Any]) -> Any:
    try:
        found = msgspec.json.decode(place.read(path), type=kind)
    except msgspec.DecodeError as error:
        raise LedgerError(f"{place.root}/{path} is damaged: {error}") from None
    if found.version > VERSION:
        raise LedgerError(f"{place.root} was written by a newer amqproxy, whose tables this one does not know")
    return found


# --- captures


def present(file: str) -> str:
    """A capture where it is now: a recorder compresses it some time after it has closed it."""
    if not Path(file).exists():
        for ending in (".zst", ".gz", ".lz4"):
            if Path(file + ending).exists():
                return file + ending
    return file


def _capture(file: str) -> Capture:
    try:
        about = storage.state_of(file)
        return Capture(file, about.size, about.modified_ns, _digest(file, about.size))
    except FileNotFoundError:  # deleted since it was read, as by a recorder that keeps so many
        return Capture(file, -1, -1, "")


def _has_changed(file: str, seen: Capture) -> bool:
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


# --- files, on a disk or in a bucket


class _Files:
    """The files below a directory or in a bucket, by paths relative to it; what is deleted may be gone already."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._place = storage.place(root)

    def make_root(self) -> None:
        try:
            if not storage.is_remote(self.root):
                Path(self._place.path, PRIVATE).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"{self.root} cannot be a directory of tables: {_reason(error)}") from None

    def names(self, directory: str) -> list[str]:
        """What is directly in a directory, in order."""
        from pyarrow.fs import FileSelector

        found = self._place.files.get_file_info(FileSelector(self._absolute(directory), allow_not_found=True))
        return sorted(each.base_name for each in found if not each.base_name.endswith(".tmp"))

    def files_below(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._absolute(directory), allow_not_found=True, recursive=True)
        found = self._place.files.get_file_info(selector)
        root = f"{self._place.path}/"
        return sorted(each.path.removeprefix(root) for each in found if each.type == FileType.File)

    def read(self, path: str) -> bytes:
        with self._place.files.open_input_stream(self._absolute(path)) as stream:
            content: bytes = stream.read()
        return content

    def size(self, path: str) -> int:
        size: int = self._place.files.get_file_info(self._absolute(path)).size
        return size

    def rows(self, path: str) -> int:
        from pyarrow import parquet

        count: int = parquet.read_metadata(self._absolute(path), filesystem=self._place.files).num_rows
        return count

    def write(self, path: str, content: bytes) -> None:
        """All of it, or nothing; it survives a loss of power."""
        if storage.is_remote(self.root):
            with self._place.files.open_output_stream(self._absolute(path)) as stream:
                stream.write(content)
            return
        target = Path(self._absolute(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{target.name}.tmp")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync(target.parent)

    def sync(self, paths: Iterable[str]) -> None:
        """Have files survive a loss of power, and their names."""
        if storage.is_remote(self.root):
            return
        files = [Path(self._absolute(path)) for path in paths]
        for each in [*files, *{file.parent for file in files}, *{file.parent.parent for file in files}]:
            _sync(each)

    def move(self, source: str, target: str) -> None:
        if not storage.is_remote(self.root):
            Path(self._absolute(target)).parent.mkdir(parents=True, exist_ok=True)
        self._place.files.move(self._absolute(source), self._absolute(target))

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._place.files.delete_file(self._absolute(path))

    def delete_directory(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._place.files.delete_dir(self._absolute(path))

    def _absolute(self, path: str) -> str:
        return f"{self._place.path}/{path}"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # not all file systems can do that with a directory
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- one driver at a time


class _Lock:
    """Held by one process; on a disk the kernel lets go of it when that has ended, however it did."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._file = f"{PRIVATE}/lock"
        self._descriptor = -1

    def take(self) -> None:
        """`Occupied`."""
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
            raise LedgerError(f"{self._root} cannot be written: {_reason(error)}") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def release(self) -> None:
        if storage.is_remote(self._root):
            _Files(self._root).delete(self._file)
        else:
            os.ftruncate(self._descriptor, 0)
            self._close()

    def _take_remote(self, owner: bytes) -> None:
        """A bucket has no locks: a driver there says that it is there, and the next one believes it."""
        place = _Files(self._root)
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
    """Was that process on this host, where there is none of its number any more?"""
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


def _reason(error: OSError) -> str:
    return error.strerror or str(error).partition("\n")[0]
