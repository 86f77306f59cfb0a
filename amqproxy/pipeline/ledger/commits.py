"""Committed batches, and their combined content."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.pipeline.ledger.captures import Capture
from amqproxy.pipeline.ledger.errors import LedgerError
from amqproxy.pipeline.ledger.files import PRIVATE, TableFiles

VERSION = 1


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A committed batch. Paths are relative to the directory of the tables."""

    batch: int
    job: str
    at: str
    files: dict[str, list[str]] = {}
    """Files added, by table."""
    removed: list[str] = []
    captures: dict[str, Capture] = {}
    """Captures ingested, by the name that a capture has, compressed or not."""
    through: int = 0
    """Last batch that the job has processed."""
    carried: dict[str, str] = {}
    """Directories with state for the job's next batch, by name."""
    again: list[str] = []
    """Chains whose earlier rows this batch replaced, since they were read again."""
    version: int = VERSION


class Contents(msgspec.Struct):
    """All commits combined."""

    batch: int = 0
    files: dict[str, list[str]] = {}
    captures: dict[str, Capture] = {}
    through: dict[str, int] = {}
    """By job."""
    carried: dict[str, dict[str, str]] = {}
    """By job."""
    again: dict[str, dict[str, int]] = {}
    """By job, the last batch that replaced the rows of each chain."""
    emptied: dict[str, int] = {}
    """Directories of hours that lost their last file, and the batch that removed it."""
    removed: list[str] = []
    """Files removed by the last commit, deleted soon after it."""
    version: int = VERSION

    def add(self, commit: Commit) -> None:
        """Apply one more commit."""
        gone = set(commit.removed)
        for name in list(self.files):
            if gone:
                self.files[name] = [file for file in self.files[name] if file not in gone]
        for name, files in commit.files.items():
            self.files.setdefault(name, []).extend(files)
        left = {file.rpartition("/")[0] for files in self.files.values() for file in files} if gone else set()
        self.emptied.update((hour, commit.batch) for hour in {file.rpartition("/")[0] for file in gone} - left)
        self.batch = commit.batch
        self.captures.update(commit.captures)
        if commit.through:
            self.through[commit.job] = commit.through
        if commit.carried:
            self.carried[commit.job] = commit.carried
        self.again.setdefault(commit.job, {}).update(dict.fromkeys(commit.again, commit.batch))
        self.removed = commit.removed


def contents(path: str) -> Contents:
    """Return the committed content of a directory of tables; raise `LedgerError` or `OSError`."""
    files = TableFiles(path)
    for _ in range(3):
        try:
            return read_contents(files)
        except FileNotFoundError:  # replaced by a snapshot meanwhile
            continue
    return read_contents(files)


def committed_files(path: str, table: str) -> list[str]:
    """Return the files of a table, relative to the directory of the tables."""
    return contents(path).files.get(table, [])


class CommittedFiles:
    """The committed files in a directory, by table; read again only after new commits.

    Threads may use it concurrently.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: tuple[list[str], dict[str, list[str]]] | None = None

    def now(self) -> dict[str, list[str]]:
        """Return the committed files, which must not be changed; raise `LedgerError` or `OSError`."""
        files = TableFiles(self._path)
        names = [name for each in ("snapshots", "commits") for name in files.names(f"{PRIVATE}/{each}")]
        known = self._known
        if known is None or known[0] != names:
            known = self._known = names, contents(self._path).files
        return known[1]


def read_contents(files: TableFiles) -> Contents:
    """Return the committed content; raise `FileNotFoundError` if commits are combined meanwhile."""
    snapshots = files.names(f"{PRIVATE}/snapshots")
    found = Contents()
    if snapshots:
        found = _decoded(files, f"{PRIVATE}/snapshots/{snapshots[-1]}", Contents)
    for name in files.names(f"{PRIVATE}/commits"):
        if int(name.partition(".")[0]) > found.batch:
            found.add(_decoded(files, f"{PRIVATE}/commits/{name}", Commit))
    return found


def _decoded(files: TableFiles, path: str, kind: type[Any]) -> Any:
    try:
        found = msgspec.json.decode(files.read(path), type=kind)
    except msgspec.DecodeError as error:
        raise LedgerError(f"{files.root}/{path} is damaged: {error}") from None
    if found.version > VERSION:
        raise LedgerError(f"{files.root} was written by a newer amqproxy, whose tables this version cannot read")
    return found
