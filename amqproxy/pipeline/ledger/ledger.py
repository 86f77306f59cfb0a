"""The single driver that writes to tables: stages, commits and cleans up batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from amqproxy.pipeline import storage
from amqproxy.pipeline.chains import capture_name
from amqproxy.pipeline.ledger.captures import capture_of, has_changed
from amqproxy.pipeline.ledger.commits import Commit, Contents, read_contents
from amqproxy.pipeline.ledger.files import PRIVATE, TableFiles
from amqproxy.pipeline.ledger.lock import DriverLock
from amqproxy.pipeline.ledger.manifests import write_manifests

TOGETHER, APART = "is_apart=false", "is_apart=true"
"""Directories of staged files, if some rows are for another purpose."""

OPEN_MARK = "-open-"
"""Part of the name of a file whose rows a later batch replaces, between the last batch in which any of them was new,
and the batch that wrote the file."""

SNAPSHOT_EVERY = 64
"""Number of commits after which all are combined in one file."""


def is_open_file(file: str) -> bool:
    """Whether a later batch replaces the rows of a table's file."""
    return OPEN_MARK in file.rpartition("/")[2]


class Found(msgspec.Struct, frozen=True):
    """Capture files by their status."""

    new: list[str]
    changed: list[str]
    """Ingested earlier and changed since; not ingested again."""
    known: int
    partial: int
    """Number of files that are still being written."""


class Ledger:
    """The driver's view of the tables in `path`: within `with`, it alone writes, and unfinished work is removed.

    Raise `Occupied` if another driver is active, and `LedgerError` if the directory has no tables.
    """

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or path
        self._place = TableFiles(self.path)
        self._lock: DriverLock | None = None
        self._complete: dict[str, frozenset[str]] = {}
        self.contents = Contents()

    def __enter__(self) -> Ledger:
        self._place.make_root()
        self._lock = DriverLock(self.path)
        self._lock.take()
        try:
            self.contents = read_contents(self._place)
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
        """Classify files as new, changed, known or partial; a file with several names, as by symbolic links, once."""
        new, changed = dict[str, str](), list[str]()
        known = partial = 0
        direct = _Direct()
        ingested = {capture_name(direct.of(seen.path)): seen for seen in self.contents.captures.values()}
        for file in files:
            name = capture_name(direct.of(file))
            seen = ingested.get(name)
            if file.endswith(".partial"):
                partial += 1
            elif seen is None:
                new.setdefault(name, file)
            else:
                known += 1
                if direct.of(seen.path) == direct.of(file) and has_changed(file, seen):
                    changed.append(file)
        return Found(list(new.values()), changed, known, partial)

    # --- batches

    @property
    def next_batch(self) -> int:
        """Return the number of the next batch."""
        return self.contents.batch + 1

    @property
    def scratch(self) -> str | None:
        """Return a directory for temporary files, which the next driver deletes; `None` in a bucket."""
        return None if storage.is_remote(self.path) else self._place.make_directory(f"{PRIVATE}/staging/scratch")

    def staging(self, table: str) -> str:
        """Return the staging directory of the next batch, relative to the directory of the tables."""
        return f"{PRIVATE}/staging/{self.next_batch}/{table}"

    def staging_open(self, table: str) -> str:
        """Return the staging directory of the next batch for rows of the table that a later batch replaces."""
        return f"{PRIVATE}/staging/{self.next_batch}/{table}.open"

    def open_files(self, table: str) -> list[str]:
        """Return the committed files of a table whose rows a later batch replaces."""
        return [file for file in self.contents.files.get(table, []) if is_open_file(file)]

    def staged_apart(self, table: str) -> list[str]:
        """Return the staged files with rows that are not of the table itself."""
        return [file for file in self._place.files_below(f"{self.staging(table)}/{APART}") if file.endswith(".parquet")]

    def only_complete(self, table: str, files: Iterable[str]) -> None:
        """Limit the staged files of a table to these, relative to `staging`."""
        staged = self.staging(table)
        self._complete[table] = frozenset(f"{staged}/{file}" for file in files)

    def size(self, file: str) -> int:
        """Return the size of a file in bytes."""
        return self._place.size(file)

    def rows(self, file: str) -> int:
        """Return the number of rows in a file."""
        return self._place.rows(file)

    def read_again(self, job: str, *, after: int) -> set[str]:
        """Return the chains whose rows the job has replaced in batches later than `after`."""
        return {chain for chain, batch in self.contents.again.get(job, {}).items() if batch > after}

    def carry(self, name: str) -> str:
        """Return the directory for the batch's state for the next one."""
        return f"{PRIVATE}/carry/{self.next_batch}/{name}"

    def carried(self, job: str, name: str) -> str | None:
        """Return the directory with the state of the job's last batch."""
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
        again: Iterable[str] = (),
        newest: Mapping[str, int] | None = None,
        newest_open: Mapping[str, int] | None = None,
    ) -> Commit:
        """Add the staged files to `tables` and remove the files `removed`, atomically.

        `newest` is for rewritten rows of earlier batches: for each of these directories, such as
        `messages/date=2026-11-23/hour=7`, the last batch of any of their rows. `newest_open` has the last batch in
        which any of the open rows was new.
        """
        batch, place = self.next_batch, self._place
        moves = {
            table: [*self._moves(table, newest or {}), *self._open_moves(table, newest_open or {})] for table in tables
        }
        commit = Commit(
            batch=batch,
            job=job,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            files={table: [to for _, to in pairs] for table, pairs in moves.items() if pairs},
            removed=sorted(removed),
            captures={capture_name(file): capture_of(file) for file in captures},
            through=through,
            carried={name: self.carry(name) for name in carried},
            again=sorted(again),
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
        write_manifests(place, self.contents, [*commit.files, *(file.partition("/")[0] for file in commit.removed)])
        self._complete.clear()
        after = {path for each in self.contents.carried.values() for path in each.values()}
        self._sweep(batch, commit.removed, before - after)
        if batch % SNAPSHOT_EVERY == 0:
            self._snapshot()
        return commit

    def _moves(self, table: str, newest: Mapping[str, int]) -> list[tuple[str, str]]:
        """Return each staged file with its name in the table."""
        staged = self.staging(table)
        complete = self._complete.get(table)
        pairs = []
        for number, file in enumerate(self._place.files_below(staged)):
            if complete is not None and file not in complete:
                continue
            partition = file.removeprefix(f"{staged}/").removeprefix(f"{TOGETHER}/").rpartition("/")[0]
            if not file.endswith(".parquet") or partition.startswith(APART):
                continue
            directory = f"{table}/{partition}".rstrip("/")
            written = f"{self.next_batch:08}-{number}.zstd.parquet"
            if directory in newest:
                written = f"{newest[directory]:08}-again-{written}"
            pairs.append((file, f"{directory}/batch-{written}"))
        return pairs

    def _open_moves(self, table: str, newest: Mapping[str, int]) -> list[tuple[str, str]]:
        """Return each staged file with rows that a later batch replaces, with its name in the table."""
        staged = self.staging_open(table)
        pairs = []
        for number, file in enumerate(self._place.files_below(staged)):
            directory = f"{table}/{file.removeprefix(f'{staged}/').rpartition('/')[0]}"
            if file.endswith(".parquet"):
                written = f"{newest.get(directory, self.next_batch):08}{OPEN_MARK}{self.next_batch:08}-{number}"
                pairs.append((file, f"{directory}/batch-{written}.zstd.parquet"))
        return pairs

    def _sweep(self, batch: int, removed: Iterable[str], uncarried: Iterable[str]) -> None:
        """Delete files that are unneeded after a commit; if that fails, the next driver does it."""
        place = self._place
        for file in removed:
            place.delete(file)
        for directory in uncarried:
            place.delete_directory(directory)
        place.delete_directory(f"{PRIVATE}/staging/{batch}")
        place.delete(f"{PRIVATE}/pending/{batch}.json")

    def _recover(self) -> None:
        """Delete uncommitted files, and those that the last commit removed."""
        place, contents = self._place, self.contents
        for name in place.names(f"{PRIVATE}/pending"):
            with suppress(msgspec.DecodeError, FileNotFoundError):  # cut short: no file was renamed yet
                pending = msgspec.json.decode(place.read(f"{PRIVATE}/pending/{name}"), type=Commit)
                if pending.batch > contents.batch:
                    for files in pending.files.values():
                        for file in files:
                            place.delete(file)
            place.delete(f"{PRIVATE}/pending/{name}")
        write_manifests(place, contents, contents.files)
        for file in contents.removed:
            place.delete(file)
        place.delete_directory(f"{PRIVATE}/staging")
        used = {path.split("/")[2] for each in contents.carried.values() for path in each.values()}
        for name in place.names(f"{PRIVATE}/carry"):
            if name not in used:
                place.delete_directory(f"{PRIVATE}/carry/{name}")

    def _snapshot(self) -> None:
        """Combine all commits in one file; keep the commits since the last snapshot, which a reader may be reading."""
        place, batch = self._place, self.contents.batch
        older = place.names(f"{PRIVATE}/snapshots")
        place.write(f"{PRIVATE}/snapshots/{batch:08}.json", msgspec.json.encode(self.contents))
        for name in older[:-1]:
            place.delete(f"{PRIVATE}/snapshots/{name}")
        for name in place.names(f"{PRIVATE}/commits"):
            if older and name <= older[-1]:
                place.delete(f"{PRIVATE}/commits/{name}")


class _Direct:
    """Paths of captures without `..` and symbolic links, so that one is the same however it was named."""

    def __init__(self) -> None:
        self._directories: dict[str, str] = {}

    def of(self, path: str) -> str:
        """Return the path; each directory is looked up once, since there may be ten thousand captures in one."""
        if storage.is_remote(path):
            return path
        directory, _, name = path.rpartition("/")
        if directory not in self._directories:
            self._directories[directory] = os.path.realpath(directory or ".")
        found = f"{self._directories[directory]}/{name}"
        return os.path.realpath(found) if Path(found).is_symlink() else found
