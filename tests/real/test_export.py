"""What our broker exports, RabbitMQ imports; and exports it again as the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from amqproxy.broker import Broker
from amqproxy.broker.definitions import definitions_json
from tests.real.rabbitmq import RabbitMQ

pytestmark = [pytest.mark.real, pytest.mark.once]

VHOST = "exported"
SECTIONS = ("users", "vhosts", "permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges")

UNSAID = {"queues": "type", "exchanges": "internal"}
"""What rabbitmqctl 3.10 does not export."""

DEFINITIONS: dict[str, list[dict[str, Any]]] = {
    "vhosts": [{"name": VHOST, "metadata": {"description": "from here", "tags": ["a", "b"]}, "limits": []}],
    "users": [{"name": "exporter", "password": "secret", "tags": ["monitoring", "policymaker"], "limits": {}}],
    "permissions": [{"user": "exporter", "vhost": VHOST, "configure": "^c", "write": "", "read": ".*"}],
    "topic_permissions": [
        {"user": "exporter", "vhost": VHOST, "exchange": "amq.topic", "write": "^w", "read": "{username}"}
    ],
    "parameters": [
        {"vhost": VHOST, "component": "vhost-limits", "name": "limits", "value": {"max-queues": 50}},
        {
            "vhost": VHOST,
            "component": "operator_policy",
            "name": "capped",
            "value": {"pattern": ".", "apply-to": "queues", "definition": {"max-length": 9}, "priority": 2},
        },
    ],
    "policies": [
        {
            "vhost": VHOST,
            "name": "expiring",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"message-ttl": 60000, "dead-letter-exchange": "dead"},
            "priority": 1,
        }
    ],
    "queues": [
        {
            "name": "q1",
            "vhost": VHOST,
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 5, "x-queue-type": "classic", "x-overflow": "reject-publish"},
        },
        {
            "name": "q2",
            "vhost": VHOST,
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 3},
        },
        {"name": "q3 ä", "vhost": VHOST, "durable": True, "auto_delete": True, "arguments": {}},
    ],
    "exchanges": [
        {
            "name": "x",
            "vhost": VHOST,
            "type": "headers",
            "durable": True,
            "auto_delete": False,
            "internal": False,  # those that are, RabbitMQ leaves out
            "arguments": {"alternate-exchange": "amq.fanout", "deep": {"list": [1, "two", 3.5, True]}},
        }
    ],
    "bindings": [
        {
            "source": "amq.headers",
            "vhost": VHOST,
            "destination": "q1",
            "destination_type": "queue",
            "routing_key": "k",
            "arguments": {"x-match": "any", "colour": "red"},
        },
        {
            "source": "amq.topic",
            "vhost": VHOST,
            "destination": "x",
            "destination_type": "exchange",
            "routing_key": "a.#",
            "arguments": {},
        },
    ],
}


def ours(exported: dict[str, Any], section: str) -> list[str]:
    """The entries of a section that we have made, in a fixed order."""
    entries = [
        entry for entry in exported[section] if entry.get("vhost") == VHOST or entry.get("name") in (VHOST, "exporter")
    ]
    for entry in entries:
        entry.pop(UNSAID.get(section, ""), None)
        if section == "users":
            entry["tags"] = sorted(entry["tags"])
        if (
            section == "vhosts"
        ):  # versions write limits as pairs, or as a table, and add the type of a queue that says none
            entry["limits"] = dict(entry["limits"])
            for each in (entry, entry["metadata"]):
                each.pop("default_queue_type", None)
    return sorted(json.dumps(entry, sort_keys=True) for entry in entries)


def test_rabbitmq_imports_what_we_export(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    broker = Broker(profile=rabbitmq.profile)
    definitions_json.load(broker, DEFINITIONS, 0.0)
    exported = definitions_json.export(broker)
    del exported["users"][0]  # guest, which others use
    exported["permissions"] = [entry for entry in exported["permissions"] if entry["vhost"] == VHOST]
    file, back = tmp_path / "exported.json", tmp_path / "back.json"
    file.write_text(json.dumps(exported))
    try:
        rabbitmq.ctl("import_definitions", str(file))
        rabbitmq.ctl("export_definitions", str(back))
    finally:
        rabbitmq.ctl("eval", f'rabbit_vhost:delete(<<"{VHOST}">>, <<"tests">>).')
        rabbitmq.ctl("delete_user", "exporter")
    found = json.loads(back.read_text())
    for section in (*SECTIONS, "bindings"):
        assert ours(found, section) == ours(exported, section), section
    again = Broker(profile=rabbitmq.profile)
    definitions_json.load(again, found, 0.0)
    assert ours(definitions_json.export(again), "bindings") == ours(exported, "bindings")
