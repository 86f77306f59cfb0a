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
from amqproxy.broker.server.malloc_trim import give_back
from amqproxy.broker.storage.batch import MAX_POSITION, POSITION_BITS, JournalBatch
from amqproxy.broker.storage.group_commit import GroupCommit
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.page_file import PageFiles
from amqproxy.broker.storage.store import Store
from amqproxy.log import logger
from amqproxy.supervision import contained, guarded, report, supervised


def damaged(broker: Broker, id_: int, error: Exception) -> None:
    """A message in the store cannot be read any more, and is passed over."""
    log_number, position = id_ >> POSITION_BITS, id_ & MAX_POSITION
    broker.events.fail("stored message damaged", error, message_log=log_number, position=position)


AGAIN = 0.1
"""Seconds after which writing is tried again when it failed before it came to the disk."""

LULL = 0.002
"""Seconds without anything new after which a batch that gathers is written."""


@asynccontextmanager
async def kept(broker: Broker, directory: Path) -> AsyncIterator[DefinitionRecorder]:
    """Keep a new broker's durable things in `directory`, for the while. `StoreError` when that cannot be.

    What a disk fails to take is tried again, and until then publishers are held up by the alarm for the disk.
    """
    token = trio.lowlevel.current_trio_token()
    is_writing = is_waiting = is_over = False
    has_failed = False
    began: float | None = None
    batch: JournalBatch | None = None  # taken, and not handed over
    gathering = GroupCommit()

    def write(is_due: bool = False) -> None:
        """Write what has gathered; what fails for another reason than the disk is tried again in a while."""
        with contained("cannot hand over what is to be written", then=lambda _: start_later(AGAIN)):
            write_gathered(is_due)

    def write_gathered(is_due: bool) -> None:
        """Write what has gathered, one batch at a time: what comes meanwhile is the next one."""
        nonlocal is_writing, began, batch
        if not (journal.is_dirty or batch is not None) or is_over:
            return
        now = trio.current_time()
        if began is None:
            began = now
        if is_writing:
            return
        left = (
            0.0
            if journal.is_urgent or is_due
            else began + gathering.patience(journal.rows, journal.waiting_bytes) - now
        )
        if left > 0:
            start_later(left)
            return
        if batch is None:
            gathering.taken(journal.rows, journal.spared)
            batch = journal.take_batch()
        store.submit(batch)
        is_writing, began, batch = True, None, None

    def start_later(seconds: float) -> None:
        nonlocal is_waiting
        if not is_waiting:
            is_waiting = True
            trio.lowlevel.spawn_system_task(
                partial(supervised, "cannot wait for more to write", write_later, seconds, then=stop_waiting)
            )

    def stop_waiting(_: Exception | None = None) -> None:
        nonlocal is_waiting
        is_waiting = False
        write(is_due=True)

    async def write_later(seconds: float) -> None:
        """Wait, but not when all wait for us: then nothing comes, and nothing is done with."""
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
        stop_waiting()

    def note_written(batch: JournalBatch) -> None:
        """Called by the store's thread. What cannot be told at once is told again: nothing else refers to the batch."""
        token.run_sync_soon(
            partial(guarded, "cannot tell what is written", written, batch, then=lambda _: note_written(batch))
        )

    def written(batch: JournalBatch) -> None:
        nonlocal is_writing, has_failed
        is_writing = False
        with contained("cannot tell what is written"):
            journal.committed(batch)
        if has_failed:
            has_failed = False
            with contained("cannot end the alarm of the disk"):
                broker.set_alarm("disk", False, current_time(), cause="store")
        write()

    def failed(error: Exception) -> None:
        nonlocal has_failed
        has_failed = True
        with contained("cannot raise the alarm of the disk"):
            logger().error("cannot write", path=str(store.path), reason=str(error))
            broker.set_alarm("disk", True, current_time(), cause="store")

    # Not at once: a batch is to have all that this turn of the loop brings.
    wake = partial(guarded, "cannot hand over what is to be written", write, then=lambda _: start_later(AGAIN))
    journal = Journal(wake=partial(token.run_sync_soon, wake, idempotent=True), events=broker.events, work=broker.work)
    store = await trio.to_thread.run_sync(
        partial(
            Store,
            directory,
            committed=note_written,
            failed=lambda error: token.run_sync_soon(guarded, "cannot tell that the disk fails", failed, error),
            damaged=partial(damaged, broker),
        )
    )
    broker.events.on_failure = report
    page_files = broker.paging.page_store = PageFiles(directory)
    broker.paging.relieved = give_back
    try:
        contents = store.load()
        journal.recover(contents.message_logs, contents.shared)
        broker.use_storage(QueueStorage(journal, store.fetch, store.times))
        for fault in restore(broker, contents.durables, current_time()):
            logger().warning("cannot make again", what=fault)
        recorder = DefinitionRecorder(broker, journal)
        recorder.begin(contents.durables)
        recorder.compare()
        yield recorder
    finally:
        is_over = True
        with contained("what was not written yet is lost"):
            if batch is not None:
                store.submit(batch)
            if journal.is_dirty:
                store.submit(journal.take_batch())
        with trio.CancelScope(shield=True), contained("store not closed", then=lambda _: store.close()):
            await trio.to_thread.run_sync(store.close)
        broker.paging.page_store = None
        with contained("page file not closed"):
            page_files.close()
