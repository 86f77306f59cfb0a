"""Rows of queues without statistics (`disable_stats=true`), with RabbitMQ's keys for each version and queue type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqproxy.management.broker_source import BrokerFacts

Entry = dict[str, Any]

BASIC = ("arguments", "auto_delete", "durable", "exclusive", "leader", "members", "name", "node", "online", "state")
"""Keys of every row, besides type and virtual host."""

BASIC_4 = ("delivery_limit", "effective_policy_definition", "internal", "internal_owner", "operator_policy", "policy")
"""Further ones from RabbitMQ 4 on."""

ABSENT_IN_3_10 = {"quorum": ("node",), "stream": ("members", "online")}
"""Keys that RabbitMQ 3.10 leaves out, by queue type."""

TOTALS = ("messages", "messages_ready", "messages_unacknowledged")

WITH_TOTALS: Mapping[str, tuple[str, ...]] = {
    "classic": (*("arguments", "auto_delete", "durable", "exclusive"), *TOTALS, "name", "node", "state"),
    "quorum": (*("arguments", "auto_delete", "durable", "leader", "members"), *TOTALS, "name", "online", "state"),
    "stream": ("arguments", "auto_delete", "durable", "name", "state"),
}
"""Keys with `enable_queue_totals=true`, by queue type, besides type and virtual host."""

WITH_TOTALS_4: Mapping[str, tuple[str, ...]] = {
    "classic": (),
    "quorum": ("delivery_limit", "effective_policy_definition", "node", "operator_policy"),
    "stream": ("online",),
}
"""Further ones from RabbitMQ 4 on."""

WITHOUT_VALUE: Mapping[str, Entry] = {
    "classic": {},
    "quorum": {"exclusive": None},
    "stream": {"exclusive": None, "totals": None, "type_specific": None},
}
"""Keys that RabbitMQ asks queue types for that do not know them."""


def basic_row(facts: BrokerFacts, row: Entry) -> Entry:
    """Return the keys of a queue's row that need no statistics."""
    names = (*BASIC, "type", "vhost", *(BASIC_4 if facts.is_4 else ()))
    found = {name: row[name] for name in names if name in row}
    if not facts.is_4:
        for name in ABSENT_IN_3_10.get(row["type"], ()):
            found.pop(name, None)
        found |= _policy(row)
        found["state"] = "live"
    return found


def row_with_totals(facts: BrokerFacts, row: Entry) -> Entry:
    """Return the keys of a queue's row with `enable_queue_totals=true`; streams have no totals, and others less of
    their policies.
    """
    type_ = row["type"]
    names = (*WITH_TOTALS[type_], "type", "vhost", *(WITH_TOTALS_4[type_] if facts.is_4 else ()))
    found = {name: row[name] for name in names if name in row} | WITHOUT_VALUE[type_] | _policy(row)
    return found | {"online": None} if facts.is_4 and type_ == "classic" else found


def _policy(row: Entry) -> Entry:
    """Return the key of a policy, which is missing where none applies."""
    return {} if row["policy"] is None else {"policy": row["policy"]}
