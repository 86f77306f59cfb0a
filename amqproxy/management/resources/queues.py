"""Queues, with their messages and consumers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, get_args

from amqproxy.control.request import QueueSort
from amqproxy.management.broker_source import BrokerFacts
from amqproxy.management.call import Call, Done, Entry, deleted, put
from amqproxy.management.listing import ListQuery, Rows, list_query
from amqproxy.management.resources.basic_queues import basic_row, row_with_totals
from amqproxy.management.resources.connections import ends
from amqproxy.management.resources.consumers import consumer_details
from amqproxy.management.resources.queue_selection import is_rate, selected_page

SORTS: tuple[str, ...] = get_args(QueueSort)
"""Columns by which the broker sorts pages."""


async def queues(call: Call) -> Rows:
    """Return the queues of a virtual host, or of all that the user may use."""
    is_basic, is_4 = call.flag("disable_stats"), call.facts.is_4

    async def shaped(rows: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
        async for row in rows:
            if is_basic and call.flag("enable_queue_totals"):
                yield row_with_totals(call.facts, row)
            elif is_basic:
                yield basic_row(call.facts, row)
            elif is_4:
                yield {name: value for name, value in row.items() if value is not None}
            else:
                yield row

    found = await _found(call, has_statistics=not is_basic)
    return found._replace(rows=shaped(found.rows))


async def detailed_queues(call: Call) -> Rows:
    """Return the queues with all keys, including those without a value."""
    return await _found(call)


async def _found(call: Call, *, has_statistics: bool = True) -> Rows:
    """Return the rows of the queues that the user sees; the broker sorts and selects them where it can."""
    query = list_query(call.query, has_pages=True)
    page = _page(call, query)
    numbers: tuple[int, int] | None = None
    if page is not None and query.page is None and has_statistics and call.figures_of_columns.has_samples:
        page = None  # a list of too many samples is refused, and not cut: it is made before any of it is sent
    if page is not None and "brief" in page:
        page, numbers = await selected_page(call, query, page)
    if page is not None and query.page is not None and numbers is None:
        counted, found = await call.broker.queue_page(call.values.get("vhost"), page)
        numbers = counted["total"], counted["filtered"]
        entries = _each(found)
    else:
        entries = call.broker.objects("queues", call.values.get("vhost"), page=page)
    return Rows(
        _rows(call, entries, has_statistics=has_statistics),
        has_pages=True,
        is_sorted=page is not None,
        numbers=numbers,
    )


async def _each(entries: Iterable[Entry]) -> AsyncGenerator[Entry]:
    for each in entries:
        yield each


def _page(call: Call, query: ListQuery) -> Entry | None:
    """Return the part of the list that the broker is asked for; None if only this process can sort or select it."""
    sort, is_here = query.sort or "vhost", query.is_regex
    if query.page is not None and is_rate(sort):
        sort, is_here = "vhost", True
    if sort not in (SORTS if query.page is not None else ("vhost",)):
        return None
    page: Entry = {"sort": sort, "reverse": query.is_reverse}
    if not call.user.is_administrator:
        page["vhosts"] = sorted(call.user.vhosts)
    if is_here:
        page["brief"] = True
    elif query.page is not None:
        page |= {"name": query.name, "count": query.page_size}
        page["offset"] = (query.page - 1) * query.page_size
    return page


async def _rows(call: Call, entries: AsyncGenerator[Entry], *, has_statistics: bool) -> AsyncIterator[Entry]:
    figures = call.figures_of_columns
    async with aclosing(entries):
        async for each in entries:
            if call.sees(each["vhost"]):
                row = queue_row(call.facts, each)
                row.pop("owner_pid_details", None)  # RabbitMQ shows it of single queues only
                if has_statistics:
                    row |= figures.of_queue(each["vhost"], each["name"], each["counts"])
                yield row


async def queue(call: Call) -> Entry:
    """Return one queue, with its consumers."""
    entry = await call.one("queues", call.values["name"], call.values["vhost"])
    row = queue_row(call.facts, entry)
    if call.flag("disable_stats"):
        if call.flag("enable_queue_totals") and call.facts.is_4:
            return row_with_totals(call.facts, row) | {"internal": False, "internal_owner": False}
        found = basic_row(call.facts, row)
        return found if call.facts.is_4 else {name: found[name] for name in found if name != "policy"}
    details = await consumer_details(call, row["vhost"], queue=row["name"])
    row |= call.figures.of_queue(entry["vhost"], entry["name"], entry["counts"])
    return row | {"consumer_details": details, "deliveries": [], "incoming": []}


def queue_row(facts: BrokerFacts, entry: Entry) -> Entry:
    """Return the row of a queue of any type."""
    ready, unacked, size = entry["ready"], entry["unacked"], entry["ready_bytes"]
    row: Entry = {
        "arguments": entry["arguments"],
        "auto_delete": entry["auto_delete"],
        "consumers": entry["consumers"],
        "durable": entry["durable"],
        "effective_policy_definition": entry["effective_policy_definition"],
        "exclusive": entry["exclusive"],
        "memory": entry["memory"],
        "messages": ready + unacked,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "name": entry["name"],
        "node": facts.node,
        "operator_policy": entry["operator_policy"],
        "policy": entry["policy"],
        "state": "running",
        "type": entry["type"],
        "vhost": entry["vhost"],
    }
    if entry["type"] != "stream":
        has_consumers = int(entry["consumers"] > 0)
        row |= {
            "consumer_capacity": has_consumers,
            "consumer_utilisation": has_consumers,
            "message_bytes_ready": size,
            "message_bytes": size,
        }
        # RabbitMQ 3.10 has a misspelt key in the rows of quorum queues.
        is_misspelt = entry["type"] == "quorum" and not facts.is_4
        tag = "single_active_consumer_ctag" if is_misspelt else "single_active_consumer_tag"
        row[tag] = entry["single_active_consumer_tag"]
    if entry["type"] == "classic":
        row["exclusive_consumer_tag"] = entry["exclusive_consumer_tag"]
        if facts.is_4:
            row["storage_version"] = 2
    else:
        row |= {"members": [facts.node], "online": [facts.node]}
        if facts.is_4 or entry["type"] == "quorum":
            row["leader"] = facts.node
    if facts.is_4:
        row |= {"internal": False, "internal_owner": False}
        if entry["type"] == "quorum":
            row["delivery_limit"] = "unlimited" if entry["delivery_limit"] is None else entry["delivery_limit"]
        if entry["type"] == "stream":
            row["segments"] = entry["segments"]
    if entry["owner"] is not None:
        row["owner_pid_details"] = owner_details(entry["owner"])
    return row


def owner_details(connection: str) -> Entry:
    """Return the connection that owns an exclusive queue."""
    addresses: dict[str, Any] = ends(connection)
    return {"name": connection, "peer_host": addresses["peer_host"], "peer_port": addresses["peer_port"]}


async def put_queue(call: Call) -> Done:
    """Declare a queue."""
    body = call.json()
    return put(
        await call.change(
            "declare-queue",
            vhost=call.values["vhost"],
            name=call.values["name"],
            durable=call.boolean(body, "durable", True),
            auto_delete=call.boolean(body, "auto_delete", False),
            arguments=call.mapping(body, "arguments"),
        )
    )


async def delete_queue(call: Call) -> Done:
    conditions = {"if_unused": call.flag("if-unused"), "if_empty": call.flag("if-empty")}
    return deleted(
        await call.change("delete-queue", vhost=call.values["vhost"], name=call.values["name"], **conditions)
    )


async def purge(call: Call) -> Done:
    return deleted(await call.change("purge-queue", vhost=call.values["vhost"], name=call.values["name"]))
