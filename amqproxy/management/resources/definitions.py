"""Definitions of the whole broker, or of one virtual host, as RabbitMQ exports them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

import msgspec

from amqproxy.control import RequestError
from amqproxy.management.call import Call, Done, Entry
from amqproxy.management.failure import bad_request
from amqproxy.management.listing import Chunks
from amqproxy.management.resources.overview import cluster_name
from amqproxy.management.streamed_list import streamed

SECTIONS = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies"),
    *("queues", "exchanges", "bindings"),
)
"""Sections of definitions in the order of their import: each may need those before it."""

PART = 50
"""Entries that are imported at a time."""

MISSING_VHOST = re.compile(r"virtual host '(.*)' does not exist")

Sections = Mapping[str, AsyncIterator[Entry]]
"""Entries by section."""

ARGUMENTS = ("durable", "auto_delete", "arguments")


async def definitions(call: Call) -> Chunks:
    """Return users, virtual hosts, permissions, parameters, policies, queues, exchanges and bindings."""
    found: Entry = {
        "rabbit_version": call.facts["version"],
        "rabbitmq_version": call.facts["version"],
        "product_name": "RabbitMQ",
        "product_version": call.facts["version"],
    }
    if call.facts.is_4:
        cluster = cluster_name(call.facts)
        found |= {
            "explanation": f"Definitions of cluster '{cluster}'",
            "original_cluster_name": cluster,
            "rabbitmq_definition_format": "cluster",
        }
    objects = call.broker.objects
    sections: Sections = {
        "users": objects("users"),
        "vhosts": _vhosts(call),
        "permissions": objects("permissions"),
        "topic_permissions": objects("topic-permissions"),
        "parameters": objects("parameters"),
        "global_parameters": objects("global-parameters"),
        "policies": objects("policies"),
        "queues": _queues(call, ("name", "vhost")),
        "exchanges": _exchanges(call, ("name", "vhost")),
        "bindings": _bindings(call, ("source", "vhost")),
    }
    return Chunks(streamed(_parts(found, sections)))


async def _parts(first: Entry, sections: Sections) -> AsyncGenerator[bytes]:
    """Yield definitions as they are read."""
    before = msgspec.json.encode(first)[:-1] + b","
    for name, entries in sections.items():
        before += b'"%s":[' % name.encode()
        async for entry in entries:
            yield before + msgspec.json.encode(entry)
            before = b","
        before = (b"" if before == b"," else before) + b"],"
    yield before[:-1] + b"}"


async def _vhosts(call: Call) -> AsyncIterator[Entry]:
    async for each in call.broker.objects("vhosts"):
        yield _vhost(call, each)


async def of_vhost(call: Call) -> Chunks:
    """Return the definitions of one virtual host, which is not named in them."""
    vhost = call.values["vhost"]
    found: Entry = {"rabbit_version": call.facts["version"]}
    if call.facts.is_4:
        [entry] = [each async for each in call.broker.objects("vhosts", vhost)]
        shown = _vhost(call, entry)
        found |= {
            "rabbitmq_version": call.facts["version"],
            "product_name": "RabbitMQ",
            "product_version": call.facts["version"],
            "description": shown["metadata"]["description"],
            "metadata": shown["metadata"],
            "limits": shown["limits"],
            "explanation": f"Definitions of virtual host '{vhost}'",
            "original_vhost_name": vhost,
            "rabbitmq_definition_format": "single_virtual_host",
        }
    sections: Sections = {
        "parameters": _parameters(call),
        "policies": _policies(call),
        "queues": _queues(call, ("name",)),
        "exchanges": _exchanges(call, ("name",)),
        "bindings": _bindings(call, ("source",)),
    }
    return Chunks(streamed(_parts(found, sections)))


async def _parameters(call: Call) -> AsyncIterator[Entry]:
    async for each in call.broker.objects("parameters", call.values["vhost"]):
        if not call.facts.is_4:
            yield each
        elif each["component"] != "vhost-limits":
            yield _without_vhost(each)


async def _policies(call: Call) -> AsyncIterator[Entry]:
    async for each in call.broker.objects("policies", call.values["vhost"]):
        yield _without_vhost(each) if call.facts.is_4 else each


def _without_vhost(entry: Entry) -> Entry:
    return {name: value for name, value in entry.items() if name != "vhost"}


def _vhost(call: Call, entry: Entry) -> Entry:
    """Return a virtual host; RabbitMQ 3.10 exports its name only."""
    if not call.facts.is_4:
        return {"name": entry["name"]}
    metadata = {"default_queue_type": "classic", **entry["metadata"]}
    return {"name": entry["name"], "limits": dict(entry["limits"]), "metadata": metadata}


async def _queues(call: Call, names: Sequence[str]) -> AsyncIterator[Entry]:
    keys = (*names, *ARGUMENTS, *(("type",) if call.facts.is_4 else ()))
    async for each in call.broker.objects("queues", call.values.get("vhost")):
        if not each["exclusive"]:
            yield {name: each[name] for name in keys}


async def _exchanges(call: Call, names: Sequence[str]) -> AsyncIterator[Entry]:
    keys = (*names, "type", *ARGUMENTS, *(() if call.facts.is_4 else ("internal",)))
    async for each in call.broker.objects("exchanges", call.values.get("vhost")):
        if each["name"] and not each["name"].startswith("amq."):
            found = {name: each[name] for name in keys}
            yield found | ({"internal": True} if each["internal"] else {})


async def _bindings(call: Call, names: Sequence[str]) -> AsyncIterator[Entry]:
    keys = (*names, "destination", "destination_type", "routing_key", "arguments")
    async for each in call.broker.objects("bindings", call.values.get("vhost")):
        if each["source"] and not each["exclusive"]:
            yield {name: each[name] for name in keys}


async def import_definitions(call: Call) -> Done:
    """Create the objects of a definitions.json, in parts, between which the broker serves its clients."""
    vhost = call.values.get("vhost")
    found = call.json("failed_to_parse_json")
    for section in SECTIONS:
        entries = found.get(section) or []
        if not isinstance(entries, list):
            raise bad_request(f"{section}: not a list")
        for first in range(0, len(entries), PART):
            part = {section: entries[first : first + PART]}
            try:
                await call.change("import", definitions=part, vhost=vhost, first=first)
            except RequestError as error:
                missing = MISSING_VHOST.search(str(error))
                if error.name != "invalid" or missing is None:
                    raise
                if not call.facts.is_4:
                    raise bad_request(["no_such_vhost", missing[1]]) from None
                text = f'Please create virtual host "{missing[1]}" prior to importing definitions.'
                raise bad_request(text) from None
    return Done()
