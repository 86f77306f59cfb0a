"""The node's memory by use: this broker knows its whole, and not its parts."""

from __future__ import annotations

from amqproxy.management.call import Call, Entry
from amqproxy.management.failure import not_found

COMMON = (
    *("connection_readers", "connection_writers", "connection_channels", "connection_other", "queue_procs"),
    *("quorum_queue_procs", "quorum_queue_dlx_procs", "stream_queue_procs", "stream_queue_replica_reader_procs"),
    *("stream_queue_coordinator_procs", "plugins", "other_proc", "metrics", "mgmt_db", "mnesia", "quorum_ets"),
    *("other_ets", "binary", "msg_index", "code", "atom", "other_system", "allocated_unused"),
    "reserved_unallocated",
)

OF_VERSION = {True: ("metadata_store", "metadata_store_ets"), False: ("queue_slave_procs",)}
"""Further parts: those of RabbitMQ 4, and those of 3.10."""

WHOLE = "other_proc"
"""The part that has all memory."""


async def memory(call: Call) -> Entry:
    """Return the parts of the node's memory in bytes."""
    total = _total(call)
    sums = dict.fromkeys(("erlang", "rss", "allocated"), total)
    return {"memory": {**_parts(call, total), "strategy": "rss", "total": sums}}


async def relative_memory(call: Call) -> Entry:
    """Return the parts of the node's memory in percent."""
    _total(call)
    return {"memory": {"total": 100, **_parts(call, 100)}}


def _total(call: Call) -> int:
    if call.values["node"] != call.facts.node:
        raise not_found()
    return call.facts["memory"] or 0


def _parts(call: Call, whole: int) -> dict[str, int]:
    names = (*COMMON, *OF_VERSION[call.facts.is_4])
    return {name: whole if name == WHOLE else 0 for name in names}
