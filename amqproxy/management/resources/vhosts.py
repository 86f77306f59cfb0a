"""Virtual hosts, with the messages in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from amqproxy.management.call import Call, Done, Entry, deleted, put
from amqproxy.management.failure import Failure, bad_request, not_found
from amqproxy.management.listing import Rows
from amqproxy.management.statistics.figures import DELIVERIES, PUBLISHES, Figures


async def vhosts(call: Call) -> Rows:
    """Return the virtual hosts that the user may use; monitoring users see all."""

    async def rows() -> AsyncIterator[Entry]:
        figures = call.figures_of_columns
        async for each in call.broker.objects("vhosts"):
            if call.user.is_monitor or call.sees(each["name"]):
                yield vhost_row(call, figures, each)

    return Rows(rows(), ("name",), has_pages=True)


async def vhost(call: Call) -> Entry:
    async for each in call.broker.objects("vhosts", call.values["vhost"]):
        return vhost_row(call, call.figures, each)
    raise not_found()  # it was deleted after the login


def vhost_row(call: Call, figures: Figures, entry: Entry) -> Entry:
    """Return the row of a virtual host; as in RabbitMQ, one that never had a queue has no totals."""
    metadata = entry["metadata"]
    usual = metadata.get("default_queue_type")
    if call.facts.is_4:
        usual = usual or "classic"
        metadata = {**metadata, "default_queue_type": usual}
    row: Entry = {
        "name": entry["name"],
        "description": metadata["description"],
        "tags": metadata["tags"],
        "metadata": metadata,
        "default_queue_type": usual or "undefined",
        "tracing": entry["tracing"],
        "cluster_state": {call.facts.node: "running"},
    }
    if call.facts.is_4:
        row["protected_from_deletion"] = bool(metadata.get("protected_from_deletion", False))
    if entry["queues"]:
        row |= {
            "messages": entry["ready"] + entry["unacked"],
            "messages_ready": entry["ready"],
            "messages_unacknowledged": entry["unacked"],
            **figures.lengths_of_vhosts([entry["name"]]),
        }
    stats = figures.of_vhosts([entry["name"]], entry["counts"], (PUBLISHES, DELIVERIES))
    return row | {"message_stats": stats} if stats else row


async def put_vhost(call: Call) -> Done:
    """Create a virtual host, or describe it anew."""
    body = call.json()
    tags = body.get("tags")
    return put(
        await call.change(
            "put-vhost",
            name=call.values["vhost"],
            description=body.get("description"),
            tags=None if tags is None else tag_names(tags),
            tracing=call.boolean(body, "tracing", False) if "tracing" in body else None,
            default_queue_type=body.get("default_queue_type"),
        )
    )


async def delete_vhost(call: Call) -> Done:
    """Delete a virtual host, unless its metadata protect it; RabbitMQ 3.10 has no protection."""
    if call.facts.is_4 and (await vhost(call))["protected_from_deletion"]:
        name = call.values["vhost"]
        text = f"Refusing to delete virtual host '{name}' because it is protected from deletion"
        raise Failure(412, "precondition_failed", text)
    return deleted(await call.change("delete-vhost", name=call.values["vhost"]))


async def protect(call: Call) -> Done:
    """Protect a virtual host from deletion."""
    name = call.values["vhost"]
    if not [each async for each in call.broker.objects("vhosts", name)]:
        text = f"Cannot enable deletion protection of virtual host '{name}' because it does not exist"
        raise Failure(404, "not_found", text)
    await call.change("put-vhost", name=name, is_protected=True)
    return Done()


async def unprotect(call: Call) -> Done:
    await call.change("put-vhost", name=call.values["vhost"], is_protected=False)
    return Done()


def tag_names(tags: Any) -> list[str]:
    """Return tags, which may be a text with commas, as names."""
    names = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise bad_request("tags are neither a text nor a list of texts")
    return [each.strip() for each in names if each.strip()]
