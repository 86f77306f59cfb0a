"""The trio shell of the store: a broker with durable state on disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.recovery import DefinitionRecorder, restore
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.dialects import TransactionRecovery, recover_orphans
from amqproxy.broker.storage.batch import MAX_POSITION, POSITION_BITS, JournalBatch
from amqproxy.broker.storage.group_commit import GroupCommit
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.page_file import PageFiles
from amqproxy.broker.storage.store import Store
from amqproxy.process.log import logger
from amqproxy.process.malloc_trim import give_back
from amqproxy.process.supervision import contained, guarded, report, supervised

RETRY_DELAY = 0.1
"""Seconds after which a write is retried that failed before it reached the disk."""

LULL = 0.002
"""Seconds without new changes after which a gathering batch is written."""


@asynccontextmanager
async def persisted(broker: Broker, directory: Path) -> AsyncIterator[DefinitionRecorder]:
    """Keep the durable state of a new broker in `directory` while this is open. `StoreError` when that cannot be.

    What a disk fails to take is tried again; until then the alarm for the disk blocks publishers.
    """
    writer = StoreWriter(broker)
    journal = writer.journal
    store = await writer.open(directory)
    if store.has_lost_database:
        remedy = f"if nobody removed {store.path.name} on purpose, stop the broker and put a copy from a backup there"
        logger().warning("the database is gone, and the broker starts empty", directory=str(directory), remedy=remedy)
    broker.events.on_failure = report
    page_files = broker.paging.page_store = PageFiles(directory)
    broker.paging.relieved = give_back
    try:
        contents = store.load()
        journal.recover(contents.message_logs, contents.shared)
        broker.use_storage(QueueStorage(journal, store.fetch, store.times))
        transactions = TransactionRecovery(broker, store.fetch, contents.durables)
        for fault in restore(broker, contents.durables, current_time(), transactions.lock):
            logger().warning("cannot make again", what=fault)
        transactions.begin(current_time())
        recorder = DefinitionRecorder(broker, journal)
        recorder.begin(contents.durables)
        recorder.compare()
        recover_orphans(broker, journal, contents.durables, current_time())
        yield recorder
    finally:
        with contained("what was not written yet is lost"):
            writer.finish()
        with trio.CancelScope(shield=True), contained("store not closed", then=lambda _: store.close()):
            await trio.to_thread.run_sync(store.close)
        broker.paging.page_store = None
        with contained("page file not closed"):
            page_files.close()


class StoreWriter:
    """Gives the journal's batches to the store, whose thread writes them: one at a time, each with all that has come.

    `open` comes first and `finish` last. While the disk fails, its alarm is on; what else fails is tried again.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._token = trio.lowlevel.current_trio_token()
        # Not immediately: a batch should contain all changes of this turn of the loop.
        wake = partial(guarded, "cannot hand over what is to be written", self._write, then=self._retry)
        wake_soon = partial(self._token.run_sync_soon, wake, idempotent=True)
        self.journal = Journal(wake=wake_soon, events=broker.events, work=broker.work)
        self._group_commit = GroupCommit()
        self._gathering_since: float | None = None
        self._batch: JournalBatch | None = None
        """A batch taken from the journal but not submitted to the store."""
        self._is_writing = False
        self._is_waiting = False
        self._is_closed = False
        self._has_disk_failed = False

    async def open(self, directory: Path) -> Store:
        """Open the store in `directory`."""
        open_store = partial(
            Store,
            directory,
            committed=self._note_written,
            failed=self._note_disk_failure,
            damaged=partial(note_damage, self._broker),
        )
        self._store = await trio.to_thread.run_sync(open_store)
        return self._store

    def finish(self) -> None:
        """Submit the remaining changes to the store before it is closed; later changes are not written."""
        self._is_closed = True
        if self._batch is not None:
            self._store.submit(self._batch)
        if self.journal.is_dirty:
            self._store.submit(self.journal.take_batch())

    # --- writing

    def _write(self, *, is_due: bool = False) -> None:
        """Write the gathered changes; a failure other than of the disk is retried after `RETRY_DELAY`."""
        with contained("cannot hand over what is to be written", then=self._retry):
            self._write_gathered(is_due=is_due)

    def _write_gathered(self, *, is_due: bool) -> None:
        """Write the gathered changes, one batch at a time; changes made meanwhile form the next batch."""
        journal = self.journal
        if not (journal.is_dirty or self._batch is not None) or self._is_closed:
            return
        now = trio.current_time()
        if self._gathering_since is None:
            self._gathering_since = now
        if self._is_writing:
            return
        patience = 0.0
        if not journal.is_urgent and not is_due:
            gathered_for = now - self._gathering_since
            patience = self._group_commit.patience(journal.rows, journal.waiting_bytes) - gathered_for
        if patience > 0:
            self._start_later(patience)
            return
        if self._batch is None:
            self._group_commit.taken(journal.rows, journal.spared)
            self._batch = journal.take_batch()
        self._store.submit(self._batch)
        self._is_writing = True
        self._gathering_since = self._batch = None

    def _retry(self, _: Exception) -> None:
        self._start_later(RETRY_DELAY)

    def _start_later(self, seconds: float) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            trio.lowlevel.spawn_system_task(
                partial(
                    supervised, "cannot wait for more to write", self._write_later, seconds, then=self._stop_waiting
                )
            )

    def _stop_waiting(self, _: Exception | None = None) -> None:
        self._is_waiting = False
        self._write(is_due=True)

    async def _write_later(self, seconds: float) -> None:
        """Wait for more changes, unless all clients wait for this batch: then none arrives and none is settled."""
        journal = self.journal
        with contained("cannot wait for more to write"):
            end = trio.current_time() + seconds
            before = -1
            while (
                not journal.is_urgent
                and before != (so_far := journal.rows + journal.spared)
                and trio.current_time() < end
            ):
                before = so_far
                await trio.sleep(LULL)
        self._stop_waiting()

    # --- reports of the store's thread

    def _note_written(self, batch: JournalBatch) -> None:
        """Called by the store's thread. A notice that fails is repeated: nothing else refers to the batch."""
        written = partial(
            guarded, "cannot process a finished write", self._written, batch, then=lambda _: self._note_written(batch)
        )
        self._token.run_sync_soon(written)

    def _written(self, batch: JournalBatch) -> None:
        self._is_writing = False
        with contained("cannot process a finished write"):
            self.journal.committed(batch)
        if self._has_disk_failed:
            self._has_disk_failed = False
            with contained("cannot end the alarm of the disk"):
                self._broker.set_alarm("disk", False, current_time(), cause="store")
        self._write()

    def _note_disk_failure(self, error: Exception) -> None:
        """Report a failed write to the event loop; called by the store's thread."""
        self._token.run_sync_soon(guarded, "cannot process a failed write", self._disk_failed, error)

    def _disk_failed(self, error: Exception) -> None:
        self._has_disk_failed = True
        with contained("cannot raise the alarm of the disk"):
            logger().error("cannot write", path=str(self._store.path), reason=str(error))
            self._broker.set_alarm("disk", True, current_time(), cause="store")
        with contained("cannot notify what waits for the disk"):
            self.journal.cannot_write(str(error))


def note_damage(broker: Broker, id_: int, error: Exception) -> None:
    """Report an unreadable message in the store, which is skipped."""
    log_number, position = id_ >> POSITION_BITS, id_ & MAX_POSITION
    broker.events.fail("stored message damaged", error, message_log=log_number, position=position)
