"""A broker with a real store, whose batches are written when the test says so; after each, its files can be copied."""

from __future__ import annotations

import queue
import shutil
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Self
from unittest.mock import patch

from amqproxy.broker.amqp010.orphan_recovery import recover_orphans
from amqproxy.broker.amqp010.transaction_recovery import TransactionRecovery
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.recovery import DefinitionRecorder, restore
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.batch import JournalBatch
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.store import Store
from tests.broker.amqp010.client import Client010, Session010

NOW = 1000.0


class StoredBroker:
    """While `copies` is a directory, what a kill would leave behind is put there after each write: `copied`."""

    def __init__(self, directory: Path, *, step: int | None = None) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self.copies: Path | None = None
        self.copied: list[Path] = []
        self._done: queue.SimpleQueue[JournalBatch] = queue.SimpleQueue()
        self._failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.store = Store(directory, committed=self._done.put, failed=self._failures.put, retry_after=0.01)
        self.broker = Broker()
        if step is not None:
            self.broker.work.quantum.limit(step)
        contents = self.store.load()
        self.journal = Journal(events=self.broker.events, work=self.broker.work)
        self.journal.recover(contents.message_logs, contents.shared)
        self.broker.use_storage(QueueStorage(self.journal, self.store.fetch, self.store.times))
        recovery = TransactionRecovery(self.broker, self.store.fetch, contents.durables)
        assert restore(self.broker, contents.durables, NOW, recovery.lock) == []
        recovery.begin(NOW)
        recorder = DefinitionRecorder(self.broker, self.journal)
        recorder.begin(contents.durables)
        recorder.compare()
        recover_orphans(self.broker, self.journal, contents.durables, NOW)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    def session(self, number: int = 1, name: bytes = b"s") -> Session010:
        """A session of a client of its own."""
        return Client010(self.broker).open().session(number, name)

    def write(self) -> None:
        """Write what there is."""
        batch = self.journal.take_batch()
        self.store.submit(batch)
        self.journal.committed(self._done.get(timeout=30))
        if self.copies is not None and not batch.is_empty:
            self.copied.append(self.copies / str(len(self.copied)))
            shutil.copytree(self._directory, self.copied[-1])

    def write_with_full_disk(self) -> None:
        """Have no room for what there is, and then, once the broker knows, room again."""
        full = sqlite3.OperationalError("database or disk is full")
        with patch.object(self.store, "_commit", side_effect=full):
            self.store.submit(self.journal.take_batch())
            self.journal.cannot_write(str(self._failures.get(timeout=30)))
        self.journal.committed(self._done.get(timeout=30))

    def go_on(self) -> None:
        """Do all that is left to later turns, and write after each."""
        self.write()
        while self.broker.work:
            self.broker.work.go_on(NOW)
            self.write()
