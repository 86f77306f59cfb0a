"""definitions.json: what RabbitMQ 3.10 exports is taken, and what we export is taken again."""

import json
from typing import Any

import pytest

from amqproxy.amqp091.methods import ExchangeBind, ExchangeDeclare, QueueDeclare
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.definitions_json import DefinitionError, export, load
from tests.broker.client import Client, connected

TOO_LONG = "{}'s name has 256 bytes, and 255 are the most"

RABBITMQS = {
    "rabbit_version": "3.10.8",
    "users": [
        {
            "name": "du",
            "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["monitoring", "policymaker"],
            "limits": {"max-channels": 30},
        },
        {"name": "old", "password": "plain", "tags": "administrator,impersonator"},
    ],
    "vhosts": [
        {"name": "fv", "limits": [["max-queues", 30]], "metadata": {"description": "d", "tags": ""}},
        {"name": "/"},
    ],
    "permissions": [{"user": "du", "vhost": "fv", "configure": "a", "write": "b", "read": ".*"}],
    "topic_permissions": [{"user": "du", "vhost": "fv", "exchange": "amq.topic", "write": "w", "read": "r"}],
    "parameters": [
        {
            "component": "operator_policy",
            "name": "op",
            "value": {"apply-to": "all", "definition": [["max-length", 3]], "pattern": "^q", "priority": 0},
            "vhost": "fv",
        },
        {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 40}, "vhost": "fv"},
        {"component": "shovel", "name": "mine", "value": {"src": "a"}, "vhost": "fv"},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "rabbit@here"}],
    "policies": [
        {
            "vhost": "fv",
            "name": "pol",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"dead-letter-exchange": "ex", "max-length": 5},
            "priority": 5,
        }
    ],
    "queues": [
        {
            "name": "q",
            "vhost": "fv",
            "type": "classic",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 10, "arr": [1, "a"], "f": 1.5, "tab": {"z": 1}, "void": None, "t": True},
        }
    ],
    "exchanges": [
        {
            "name": "ex",
            "vhost": "fv",
            "type": "headers",
            "durable": True,
            "auto_delete": False,
            "arguments": {"alternate-exchange": "alt"},
        }
    ],
    "bindings": [
        {
            "source": "ex",
            "vhost": "fv",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "rk",
            "arguments": {"h": 1, "x-match": "any"},
        },
        {
            "source": "amq.direct",
            "vhost": "fv",
            "destination": "ex",
            "destination_type": "exchange",
            "routing_key": "k",
            "arguments": {},
        },
    ],
}


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    load(broker, RABBITMQS, 0.0)
    return broker


def test_what_rabbitmq_exports(broker: Broker) -> None:
    user, old, vhost = broker.users["du"], broker.users["old"], broker.vhosts["fv"]
    assert user.accepts("test12")
    assert old.accepts("plain")
    assert (user.tags, old.tags) == (("monitoring", "policymaker"), ("administrator", "impersonator"))
    assert user.limits == {"max-channels": 30}
    assert user.permissions["fv"] == ("a", "b", ".*")
    assert user.topic_permissions["fv", "amq.topic"] == ("w", "r")
    assert (vhost.limits, vhost.description) == ({"max-queues": 40}, "d")
    queue = vhost.queues["q"]
    assert queue.arguments.fields == (
        Field("x-max-length", "l", 10),
        Field("arr", "A", Array([Item("l", 1), Item("S", "a")])),
        Field("f", "d", 1.5),
        Field("tab", "F", Table([Field("z", "l", 1)])),
        Field("void", "V", None),
        Field("t", "t", True),
    )
    assert vhost.exchanges["ex"].alternate == "alt"
    assert [source.name for source, _ in vhost.bindings_to(queue)] == ["ex"]


def test_what_is_exported_is_the_same_again(broker: Broker) -> None:
    exported = json.loads(json.dumps(export(broker)))
    again = Broker()
    load(again, exported, 0.0)
    assert export(again) == exported
    assert exported["policies"] == RABBITMQS["policies"]
    assert exported["bindings"][0] in RABBITMQS["bindings"]  # type: ignore[operator]


def test_loading_twice_changes_nothing(broker: Broker) -> None:
    before = export(broker)
    load(broker, before, 0.0)
    assert export(broker) == before


def test_a_clients_things_are_exported_and_exclusive_queues_are_not() -> None:
    client = connected()
    client.declare(
        "ours", durable=True, arguments={"b": Item("x", b"12"), "raw": Item("x", b"\xff"), "ts": Item("T", 5)}
    )
    client.declare("mine", exclusive=True)
    client.ask(ExchangeDeclare(exchange="x", type="topic", internal=True))
    client.ask(ExchangeBind(destination="x", source="amq.topic", routing_key="#"))
    client.bind("mine", "x", "k")
    exported = export(client.broker)
    assert [queue["name"] for queue in exported["queues"]] == ["ours"]
    assert exported["queues"][0]["arguments"] == {"b": "12", "raw": "/w==", "ts": 5}
    assert [exchange["internal"] for exchange in exported["exchanges"]] == [True]
    assert [binding["destination"] for binding in exported["bindings"]] == ["x"]


def test_of_one_virtual_host() -> None:
    broker = Broker()
    queue = {"name": "q", "durable": True, "auto_delete": False, "arguments": {}}
    load(broker, {"queues": [queue], "vhosts": [{"name": "v"}]}, 0.0, "/")
    assert list(broker.vhosts) == ["/"]
    assert list(broker.vhosts["/"].queues) == ["q"]


@pytest.mark.parametrize(
    ("definitions", "expected"),
    [
        ({"queues": [{"name": "q", "vhost": "nil"}]}, "queues[0]: virtual host 'nil' does not exist"),
        ({"queues": [{"name": "q"}]}, "queues[0]: 'vhost' is missing"),
        ({"queues": ["q"]}, "queues[0]: not an object"),
        ({"queues": [{"name": "é" * 128, "vhost": "/"}]}, f"queues[0]: {TOO_LONG.format('the queue')}"),
        (
            {"exchanges": [{"name": "é" * 128, "vhost": "/", "type": "direct"}]},
            f"exchanges[0]: {TOO_LONG.format('the exchange')}",
        ),
        ({"vhosts": [{"name": "é" * 128}]}, f"vhosts[0]: {TOO_LONG.format('the virtual host')}"),
        (
            {
                "queues": [{"name": "q", "vhost": "/"}],
                "bindings": [{"source": "amq.direct", "vhost": "/", "destination": "q", "routing_key": 256 * "k"}],
            },
            "bindings[0]: the routing key has 256 bytes, and 255 are the most",
        ),
        ({"queues": [{"name": "\ud800", "vhost": "/"}]}, "queues[0]: the queue's name is no text that can be encoded"),
        ({"queues": [{"name": 5, "vhost": "/"}]}, "queues[0]: 'name' is not a string"),
        (
            {"permissions": [{"user": "x", "vhost": "/", "configure": "", "write": "", "read": ""}]},
            "permissions[0]: user 'x' does not exist",
        ),
        (
            {
                "bindings": [
                    {"source": "x", "vhost": "/", "destination": "q", "destination_type": "z", "routing_key": ""}
                ]
            },
            "bindings[0]: destination_type 'z' is neither queue nor exchange",
        ),
        ({"queues": [{"name": "q", "vhost": "/", "durable": "yes"}]}, "queues[0]: 'durable' is neither true nor false"),
        ({"users": [{"name": "u", "password_hash": 5}]}, "users[0]: 'password_hash' is not in base64"),
        ({"users": [{"name": "u", "password_hash": "%%%"}]}, "users[0]: 'password_hash' is not in base64"),
        (
            {"permissions": [{"user": "guest", "vhost": "/", "configure": "(", "write": "", "read": ""}]},
            "permissions[0]: `(` is not a regular expression: missing ): (",
        ),
        (
            {"topic_permissions": [{"user": "guest", "vhost": "/", "exchange": "amq.topic", "write": 1, "read": ""}]},
            "topic_permissions[0]: 1 is no regular expression",
        ),
        (
            {"policies": [{"vhost": "/", "name": "p", "pattern": ".*", "definition": {"max-length": -5}}]},
            "policies[0]: -5 is not a valid maximum length",
        ),
        ({"users": [{"name": "u", "hashing_algorithm": "rot13"}]}, "users[0]: unknown hashing algorithm 'rot13'"),
    ],
)
def test_what_cannot_be(definitions: dict[str, Any], expected: str) -> None:
    with pytest.raises(DefinitionError) as error:
        load(Broker(), definitions, 0.0)
    assert str(error.value) == expected


def test_bindings_of_what_is_not_exported_are_left_out() -> None:
    """RabbitMQ lists those of exclusive queues, and of internal exchanges, which it does not list themselves."""
    broker = Broker()
    ends = [
        ("amq.direct", "mine", "queue"),
        ("inner", "amq.fanout", "exchange"),
        ("amq.direct", "amq.fanout", "exchange"),
    ]
    bindings = [
        {"vhost": "/", "source": source, "destination": destination, "destination_type": kind, "routing_key": "k"}
        for source, destination, kind in ends
    ]
    assert load(broker, {"bindings": bindings}, 0.0) == [
        "bindings[0]: left out: no queue 'mine' in vhost '/'",
        "bindings[1]: left out: no exchange 'inner' in vhost '/'",
    ]
    assert [
        source.name for source, _ in broker.vhosts["/"].bindings_to(broker.vhosts["/"].exchanges["amq.fanout"])
    ] == ["amq.direct"]


def test_a_queue_declared_by_definition_is_a_clients_own() -> None:
    broker = Broker()
    broker.users["guest"].permissions.clear()
    load(broker, RABBITMQS, 0.0)
    everything = {"user": "guest", "vhost": "fv", "configure": ".*", "write": ".*", "read": ".*"}
    load(broker, {"permissions": [everything]}, 0.0)
    client = Client(broker).open("fv")
    client.channel()
    declare = QueueDeclare(queue="q", durable=True, arguments=Table({"x-max-length": 10}))
    assert client.answers(declare) == "queue.declare-ok"


@pytest.mark.parametrize(
    ("definitions", "expected"),
    [
        ({"shovels": []}, "shovels: left out: unknown section"),
        ({"rabbitmq_version": "5.0", "explanation": "why"}, None),
        (
            {"exchanges": [{"name": "x", "vhost": "/", "type": "carousel"}]},
            "exchanges[0]: left out: unknown exchange type 'carousel'",
        ),
        (
            {"exchanges": [{"name": "amq.rabbitmq.log", "vhost": "/", "type": "topic"}]},
            "exchanges[0]: left out: exchange 'amq.rabbitmq.log' is not available",
        ),
        (
            {"exchanges": [{"name": "x", "vhost": "/", "type": "topic", "arguments": {"x-new": 1}}]},
            "exchanges[0]: no effect: argument 'x-new'",
        ),
        ({"users": [{"name": "u", "limits": {"max-queues": 1}}]}, "users[0]: no effect: limit 'max-queues'"),
        ({"vhosts": [{"name": "v", "limits": [["max-fun", 1]]}]}, "vhosts[0]: no effect: limit 'max-fun'"),
        (
            {"vhosts": [{"name": "v", "metadata": {"unheard_of": True, "default_queue_type": "classic"}}]},
            "vhosts[0]: no effect: metadata unheard_of = True",
        ),
        ({"vhosts": [{"name": "v", "metadata": {"protected_from_deletion": True}}]}, None),
        ({"vhosts": [{"name": "v", "default_queue_type": "quorum"}]}, None),
        (
            {"policies": [{"vhost": "/", "name": "p", "pattern": ".*", "definition": {"consumer-timeout": 1}}]},
            "policies[0]: no effect: policy setting 'consumer-timeout'",
        ),
        (
            {
                "policies": [
                    {"vhost": "/", "name": "p", "pattern": ".*", "apply-to": "drums", "definition": {"expires": 1}}
                ]
            },
            "policies[0]: left out: unknown apply-to 'drums'",
        ),
        (
            {"parameters": [{"vhost": "/", "component": "other", "name": "s", "value": {}}]},
            "parameters[0]: no effect: parameter of 'other'",
        ),
        (
            {"global_parameters": [{"name": "mqtt", "value": 1}]},
            "global_parameters[0]: no effect: global parameter 'mqtt'",
        ),
        (
            {"queues": [{"name": "q", "vhost": "/", "arguments": {"x-queue-type": "drum"}}]},
            "queues[0]: left out: invalid arg 'x-queue-type' for queue 'q' in vhost '/': "
            "\"unsupported queue type 'drum'\"",
        ),
        (
            {"queues": [{"name": f"q{n}", "vhost": "/", "arguments": {"x-consumer-timeout": 5}} for n in range(5)]},
            "queues[0], queues[1], queues[2] and 2 more: no effect: argument 'x-consumer-timeout'",
        ),
    ],
)
def test_what_has_no_effect_is_named(definitions: dict[str, Any], expected: str | None) -> None:
    assert load(Broker(), definitions, 0.0) == ([] if expected is None else [expected])


def test_settings_without_effect_are_exported_again() -> None:
    policy = {
        "vhost": "/",
        "name": "p",
        "pattern": "^q",
        "apply-to": "classic_queues",
        "definition": {"consumer-timeout": 5, "max-length": 1},
        "priority": 0,
    }
    broker = Broker()
    load(broker, {"policies": [policy], "vhosts": [{"name": "/", "metadata": {"default_queue_type": "quorum"}}]}, 0.0)
    exported = export(broker)
    assert exported["policies"] == [policy]
    assert exported["vhosts"][0]["metadata"]["default_queue_type"] == "quorum"


def test_a_queue_loses_arguments_of_another_version_rather_than_be_left_out() -> None:
    broker = Broker()
    arguments = {"x-queue-leader-locator": "balanced", "x-max-length": 5, "note": "kept"}
    load(broker, {"queues": [{"name": "q", "vhost": "/", "arguments": arguments}]}, 0.0)
    assert dict(broker.vhosts["/"].queues["q"].arguments) == {"x-max-length": 5, "note": "kept"}
