"""The one driver that writes to tables: batches are staged, committed, and swept up after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from amqproxy.pipeline.chains import capture_name
from amqproxy.pipeline.ledger.captures import capture_of, has_changed
from amqproxy.pipeline.ledger.commits import Commit, Contents, read_contents
from amqproxy.pipeline.ledger.files import PRIVATE, TableFiles
from amqproxy.pipeline.ledger.lock import DriverLock

TOGETHER, APART = "is_apart=false", "is_apart=true"
"""How directories of staged files are called where some rows are for another purpose."""

SNAPSHOT_EVERY = 64
"""Commits after which all of them are put into one file."""


class Found(msgspec.Struct, frozen=True):
    """Capture files, by what is to be done with them."""

    new: list[str]
    changed: list[str]
    """Ingested once, and different since then: they are not ingested again."""
    known: int
    partial: int
    """Still being written."""


class Ledger:
    """The one driver's view of the tables in `path`: within `with` it alone writes, and what was half done is gone.

    Raises `Occupied` where another driver does; `LedgerError` for what is no directory of tables.
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
        """What of these is new."""
        new, changed, known, partial = [], [], 0, 0
        for file in files:
            seen = self.contents.captures.get(capture_name(file))
            if file.endswith(".partial"):
                partial += 1
            elif seen is None:
                new.append(file)
            else:
                known += 1
                if seen.path == file and has_changed(file, seen):
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

    def only_complete(self, table: str, files: Iterable[str]) -> None:
        """Of the files that are staged for a table only these, relative to `staging`, become part of it."""
        staged = self.staging(table)
        self._complete[table] = frozenset(f"{staged}/{file}" for file in files)

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
        newest: Mapping[str, int] | None = None,
    ) -> Commit:
        """Make what was staged for `tables` part of them, and take the files `removed` out, all at once.

        `newest` is for rows of earlier batches that are written again: of these directories, such as
        `messages/date=2026-11-23/hour=7`, the last batch that any of their rows is of.
        """
        batch, place = self.next_batch, self._place
        moves = {table: self._moves(table, newest or {}) for table in tables}
        commit = Commit(
            batch=batch,
            job=job,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            files={table: [to for _, to in pairs] for table, pairs in moves.items() if pairs},
            removed=sorted(removed),
            captures={capture_name(file): capture_of(file) for file in captures},
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
        self._complete.clear()
        after = {path for each in self.contents.carried.values() for path in each.values()}
        self._sweep(batch, commit.removed, before - after)
        if batch % SNAPSHOT_EVERY == 0:
            self._snapshot()
        return commit

    def _moves(self, table: str, newest: Mapping[str, int]) -> list[tuple[str, str]]:
        """Each staged file, and its name in the table."""
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
