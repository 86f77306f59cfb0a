"""The trio shell of the store: a broker that finds again what it was told to keep."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog
import trio

from amqproxy.broker.broker import Broker
from amqproxy.broker.heap import give_back
from amqproxy.broker.journal import Batch, Journal
from amqproxy.broker.keeper import Keeper
from amqproxy.broker.remembrance import Remembrance, restore
from amqproxy.broker.server import current_time
from amqproxy.broker.spill import Spill
from amqproxy.broker.store import Store


@asynccontextmanager
async def kept(broker: Broker, directory: Path) -> AsyncIterator[Remembrance]:
    """Keep a new broker's durable things in `directory`, for the while. `StoreError` when that cannot be.

    What a disk fails to take is tried again, and until then publishers are held up by the alarm for the disk.
    """
    log = structlog.get_logger()
    token = trio.lowlevel.current_trio_token()
    is_writing = False
    has_failed = False

    def write() -> None:
        """Write what has gathered, one batch at a time: what comes meanwhile is the next one."""
        nonlocal is_writing
        if journal.is_dirty and not is_writing:
            is_writing = True
            store.submit(journal.take())

    def written(batch: Batch) -> None:
        nonlocal is_writing, has_failed
        is_writing = False
        journal.committed(batch)
        if has_failed:
            has_failed = False
            broker.set_alarm("disk", False, current_time(), cause="store")
        write()

    def failed(error: Exception) -> None:
        nonlocal has_failed
        has_failed = True
        log.error("cannot write", path=str(store.path), reason=str(error))
        broker.set_alarm("disk", True, current_time(), cause="store")

    # Not at once: a batch is to have all that this turn of the loop brings.
    journal = Journal(wake=partial(token.run_sync_soon, write, idempotent=True))
    store = await trio.to_thread.run_sync(
        partial(
            Store,
            directory,
            committed=lambda batch: token.run_sync_soon(written, batch),
            failed=lambda error: token.run_sync_soon(failed, error),
        )
    )
    spill = broker.paging.place = Spill(directory)
    broker.paging.relieved = give_back
    try:
        contents = store.load()
        journal.recover(contents.lanes, contents.shared)
        broker.keep(Keeper(journal, store.fetch))
        for fault in restore(broker, contents.durables, current_time()):
            log.warning("cannot make again", what=fault)
        remembrance = Remembrance(broker, journal)
        remembrance.begin(contents.durables)
        remembrance.compare()
        yield remembrance
    finally:
        if journal.is_dirty:
            store.submit(journal.take())
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(store.close)
        broker.paging.place = None
        spill.close()
