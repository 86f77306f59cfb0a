"""The broker at a glance: versions, totals, listeners."""

from __future__ import annotations

import hashlib
import platform
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from amqproxy import __version__
from amqproxy.management.broker_source import BrokerFacts
from amqproxy.management.call import Call, Entry
from amqproxy.management.statistics.figures import DELIVERIES, NO_COUNTS, PUBLISHES

EXCHANGE_TYPES: Mapping[str, str] = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-delayed-message": "Delayed Message Exchange.",
    "x-local-random": "Picks one random local binding (queue) to route via (to).",
    "x-modulus-hash": "Modulus Hashing Exchange",
}
"""RabbitMQ's descriptions of exchange types."""

OBJECTS = ("channels", "connections", "consumers", "exchanges", "queues")
"""Keys of numbers of objects; users without monitoring are not told of consumers."""


async def overview(call: Call) -> Entry:
    """Return versions, the totals of all that the user may see, and for monitoring users the listeners."""
    facts, user = call.facts, call.user
    totals = await _totals(call)
    version = facts["version"]
    found: Entry = {
        "management_version": version,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]},
        "exchange_types": exchange_types(facts),
        "product_version": version,
        "product_name": "RabbitMQ",
        "rabbitmq_version": version,
        "cluster_name": cluster_name(call.facts),
        **runtime(),
        "disable_stats": False,
        "enable_queue_totals": False,
    }
    if facts.is_4:
        found |= {
            "cluster_tags": {},
            "node_tags": {},
            "crypto_lib_version": ssl.OPENSSL_VERSION,
            "default_queue_type": "classic",
            "is_op_policy_updating_enabled": True,
            "require_definition_json_extension": False,
        }
    else:
        found["release_series_support_status"] = "supported"
    found |= {
        "message_stats": message_stats(call, totals["vhosts"], totals["counts"]),
        "churn_rates": call.figures.churn(facts["churn"]),
        "queue_totals": {
            "messages": totals["ready"] + totals["unacked"],
            "messages_ready": totals["ready"],
            "messages_unacknowledged": totals["unacked"],
            **call.figures.lengths_of_vhosts(totals["vhosts"]),
        },
        "object_totals": {name: totals[name] for name in OBJECTS if name in totals},
        "statistics_db_event_queue": 0,
    }
    if user.is_monitor:
        contexts = [{"node": facts.node, **context(call)}]
        found |= {"node": facts.node, "listeners": listeners(call), "contexts": contexts}
    return found


async def _totals(call: Call) -> Entry:
    """Return the totals of all objects, or for users without monitoring those of what they may see."""
    if call.user.is_monitor:
        totals = await call.broker.totals()
        return totals | {"consumers": sum(totals["consumers"].values())}
    vhosts = [each for each in await call.broker.vhosts() if call.sees(each["name"])]
    found: Entry = {name: sum(each[name] for each in vhosts) for name in ("ready", "unacked", "queues", "exchanges")}
    found["counts"] = [sum(column) for column in zip(NO_COUNTS, *(each["counts"] for each in vhosts), strict=True)]
    found["vhosts"] = [each["name"] for each in vhosts]
    for kind in ("channels", "connections"):
        found[kind] = 0
        async for each in call.broker.objects(kind):
            found[kind] += each["user"] == call.user.name
    return found


def message_stats(call: Call, vhosts: Sequence[str], counts: Sequence[int]) -> Entry:
    """Return the counts of all virtual hosts that the user sees."""
    figures = call.figures
    found = figures.of_vhosts(vhosts, counts, (PUBLISHES, DELIVERIES))
    return found | figures.disk(call.facts["disk_counts"]) if found else {}


def runtime() -> Entry:
    """Return the versions of Erlang, which many clients read; what runs instead is named there."""
    return {
        "erlang_version": "0",
        "erlang_full_version": f"none: amqproxy {__version__} on Python {platform.python_version()}",
    }


def cluster_name(facts: BrokerFacts) -> str:
    """Return the name of the cluster: the node's, unless a global parameter sets another."""
    return facts.node if facts["cluster_name"] is None else str(facts["cluster_name"])


def cluster_id(facts: BrokerFacts) -> str:
    """Return the identity of the cluster: the same after each start of a node with its data."""
    place = f"{facts.node} {facts['directory'] or ''}"
    return f"rabbitmq-cluster-id-{urlsafe_b64encode(hashlib.sha256(place.encode()).digest()[:16]).decode().rstrip('=')}"


async def show_cluster_name(call: Call) -> Entry:
    return {"name": cluster_name(call.facts)}


async def whoami(call: Call) -> Entry:
    found: Entry = {"name": call.user.name, "tags": list(call.user.tags)}
    return found | {"is_internal_user": call.user.token is None} if call.facts.is_4 else found


async def version(call: Call) -> Any:
    return call.facts["version"]


async def extensions(call: Call) -> list[Entry]:
    """Return the extensions of RabbitMQ's own page, of which this API has none."""
    return []


def exchange_types(facts: BrokerFacts) -> list[Entry]:
    """Return the exchange types that clients may declare."""
    return [{"name": each, "description": EXCHANGE_TYPES[each], "enabled": True} for each in facts["exchange_types"]]


def listeners(call: Call) -> list[Entry]:
    """Return the broker's listeners, and that of this API."""
    node, settings = call.facts.node, call.settings
    found = [
        {
            "node": node,
            "protocol": "amqp/ssl" if each["tls"] else "amqp",
            "ip_address": each["host"],
            "port": each["port"],
            "socket_opts": {},
            "tls": each["tls"],
        }
        for each in call.facts["listeners"]
    ]
    is_tls = settings.certificate is not None
    found.append(
        {
            "node": node,
            "protocol": "https" if is_tls else "http",
            "ip_address": settings.host,
            "port": settings.port,
            "socket_opts": {},
            "tls": is_tls,
        }
    )
    return found if call.facts.is_4 else [{key: each[key] for key in each if key != "tls"} for each in found]


def context(call: Call) -> Entry:
    """Return the web server of this API."""
    settings = call.settings
    return {
        "ssl_opts": [],
        "description": "RabbitMQ Management",
        "path": "/",
        "ip": settings.host,
        "port": str(settings.port),
    }
