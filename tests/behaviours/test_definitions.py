"""definitions.json: what is exported, and what an import makes."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from amqproxy.amqp091.methods import ConnectionTune, ExchangeDeclare, QueueDeclare
from amqproxy.amqp091.wire import Table
from amqproxy.broker import Broker
from amqproxy.broker.definitions import definitions_json
from amqproxy.rabbitmq.profile import PROFILES, Profile
from tests.behaviours.client import Channel, login
from tests.behaviours.every_definition import USERS as EVERY_USERS
from tests.behaviours.every_definition import VHOST as EVERY_VHOST
from tests.behaviours.every_definition import every_definition, sorted_definitions
from tests.behaviours.scene import Scene
from tests.behaviours.target import Target

pytestmark = pytest.mark.real

VHOST = "defined"
SALT = b"salt"


def hashed(password: str) -> str:
    """A password as RabbitMQ keeps it: four bytes of salt, then SHA-256 of both."""
    return base64.b64encode(SALT + hashlib.sha256(SALT + password.encode()).digest()).decode()


IMPORTED: dict[str, Any] = {
    "vhosts": [{"name": VHOST}],
    "users": [
        {
            "name": "hashed",
            "password_hash": hashed("secret"),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["monitoring"],
            "limits": {},
        },
        {"name": "plain", "password": "secret", "tags": "management,policymaker"},
    ],
    "permissions": [
        {"user": "hashed", "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*"},
        {"user": "guest", "vhost": VHOST, "configure": ".*", "write": ".*", "read": ".*"},
    ],
    "topic_permissions": [
        {"user": "hashed", "vhost": VHOST, "exchange": "amq.topic", "write": "^a", "read": ".*"},
    ],
    "parameters": [],
    "policies": [
        {
            "vhost": VHOST,
            "name": "short",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"max-length": 1},
            "priority": 7,
        }
    ],
    "queues": [
        {"name": "q", "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {"x-message-ttl": 60000}},
        {
            "name": "quorum",
            "vhost": VHOST,
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "quorum"},
        },
    ],
    "exchanges": [
        {
            "name": "x",
            "vhost": VHOST,
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"alternate-exchange": "amq.fanout"},
        },
        {
            "name": "inner",
            "vhost": VHOST,
            "type": "fanout",
            "durable": True,
            "auto_delete": False,
            "internal": True,
            "arguments": {},
        },
    ],
    "bindings": [
        {
            "source": "x",
            "vhost": VHOST,
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {"note": "kept"},
        },
        {
            "source": "x",
            "vhost": VHOST,
            "destination": "inner",
            "destination_type": "exchange",
            "routing_key": "b",
            "arguments": {},
        },
    ],
}


@pytest.fixture(scope="module")
def imported(broker: Target) -> Iterator[Target]:
    broker.define(**IMPORTED)
    yield broker
    broker.forget(vhosts=[VHOST], users=["hashed", "plain"])


@pytest.fixture(scope="module")
def exported(imported: Target) -> dict[str, Any]:
    """Return the exported definitions, after transient objects of all kinds were declared."""
    client = imported.connect(VHOST)
    ch = client.channel()
    ch.declare("transient-q", auto_delete=True)
    ch.declare("exclusive-q", durable=True, exclusive=True)
    ch.declare("durable-q", durable=True)
    ch.exchange("transient-x")
    ch.bind("durable-q", "amq.direct", "k")
    ch.bind("transient-q", "amq.direct", "k")
    ch.bind("exclusive-q", "amq.direct", "k")
    definitions = imported.definitions()
    client.close()
    return definitions


@pytest.fixture
def ch(imported: Target, scene: Scene) -> Channel:
    return scene.channel(vhost=VHOST)


# --------------------------------------------------------------------------------------------------- what is made


@pytest.mark.parametrize("user", ["hashed", "plain"])
def test_users_can_log_in(imported: Target, scene: Scene, user: str) -> None:
    client = scene.bare()
    client.greet()
    client.start_ok(login(user, "secret"))
    client.zero.expect(ConnectionTune)


def test_permissions_hold(imported: Target, scene: Scene) -> None:
    ch = scene.channel(vhost=VHOST, user="hashed", password="secret")
    ch.publish("amq.topic", "b")
    access = "write access" if scene.profile.names_operation else "access"
    assert ch.refusal().startswith(f"channel 403 basic.publish ACCESS_REFUSED - {access} to topic 'b'")


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare(queue="q", durable=True, arguments=Table({"x-message-ttl": 60000})),
        QueueDeclare(queue="quorum", durable=True, arguments=Table({"x-queue-type": "quorum"})),
        ExchangeDeclare(
            exchange="x", type="topic", durable=True, arguments=Table({"alternate-exchange": "amq.fanout"})
        ),
        ExchangeDeclare(exchange="inner", type="fanout", durable=True, internal=True),
    ],
    ids=["a queue", "a quorum queue", "an exchange", "an internal exchange"],
)
def test_what_was_imported_is_there_as_described(ch: Channel, method: Any) -> None:
    ch.call(method)


def test_bindings_and_policies_hold(ch: Channel) -> None:
    for body in (b"1", b"2"):
        ch.publish("x", "a.b", body)
    ch.settle("q")
    assert ch.drain("q") == [b"2"]


def test_an_import_again_changes_nothing(imported: Target, ch: Channel) -> None:
    ch.publish("", "q", b"kept")
    imported.define(**IMPORTED)
    assert ch.drain("q") == [b"kept"]


# ------------------------------------------------------------------------------------------------ what comes out


def test_the_parts(exported: dict[str, Any]) -> None:
    assert {
        "rabbit_version",
        "rabbitmq_version",
        "users",
        "vhosts",
        "permissions",
        "topic_permissions",
        "parameters",
        "global_parameters",
        "policies",
        "queues",
        "exchanges",
        "bindings",
    } <= set(exported)


@pytest.mark.parametrize("part", ["permissions", "topic_permissions", "policies", "bindings"])
def test_what_went_in_comes_out(exported: dict[str, Any], part: str) -> None:
    for entry in IMPORTED[part]:
        assert entry in exported[part]


def test_queues_are_exported_with_their_type(exported: dict[str, Any], profile: Profile) -> None:
    for entry, type_ in zip(IMPORTED["queues"], ("classic", "quorum"), strict=True):
        arguments = {**entry["arguments"], **({"x-queue-type": type_} if profile.shows_queue_type else {})}
        assert {**entry, "arguments": arguments, "type": type_} in exported["queues"]


def test_exchanges(exported: dict[str, Any]) -> None:
    entry = IMPORTED["exchanges"][0]
    (found,) = [each for each in exported["exchanges"] if (each["name"], each["vhost"]) == ("x", VHOST)]
    assert {"internal": False, **found} == entry  # rabbitmqctl leaves "internal" out, the HTTP API does not


@pytest.mark.unsupported_on_rabbitmq("it leaves internal exchanges out, whose bindings an import then cannot make")
def test_internal_exchanges(exported: dict[str, Any]) -> None:
    assert IMPORTED["exchanges"][1] in exported["exchanges"]


def test_users(exported: dict[str, Any]) -> None:
    users = {user["name"]: user for user in exported["users"]}
    assert users["hashed"] == IMPORTED["users"][0]
    assert set(users["plain"]) == {"name", "password_hash", "hashing_algorithm", "tags", "limits"}
    assert users["plain"]["tags"] == ["management", "policymaker"]
    assert (
        base64.b64decode(users["plain"]["password_hash"])[4:]
        == hashlib.sha256(base64.b64decode(users["plain"]["password_hash"])[:4] + b"secret").digest()
    )


def test_what_is_left_out(exported: dict[str, Any]) -> None:
    """The broker's own, and what is exclusive; but not what is transient."""
    queues = {queue["name"] for queue in exported["queues"] if queue["vhost"] == VHOST}
    exchanges = {exchange["name"] for exchange in exported["exchanges"] if exchange["vhost"] == VHOST}
    assert queues == {"q", "quorum", "durable-q", "transient-q"}
    assert exchanges - {"inner"} == {"x", "transient-x"}


def test_bindings(exported: dict[str, Any]) -> None:
    """RabbitMQ lists those of exclusive queues too, which are of no use."""
    bindings = {(each["source"], each["destination"]) for each in exported["bindings"] if each["vhost"] == VHOST}
    assert bindings - {("amq.direct", "exclusive-q")} == {
        ("x", "q"),
        ("x", "inner"),
        ("amq.direct", "durable-q"),
        ("amq.direct", "transient-q"),
    }


def test_virtual_hosts(exported: dict[str, Any]) -> None:
    assert VHOST in {vhost["name"] for vhost in exported["vhosts"]}


@pytest.mark.unsupported_on_rabbitmq("the import fails, and so does one of its own exports", "4.0", "4.3")
def test_bindings_of_what_is_not_there_are_left_out(scene: Scene) -> None:
    """Exported bindings include those of exclusive queues, which are not exported themselves."""
    binding = {"vhost": scene.vhost, "source": "amq.direct", "destination": scene.q, "destination_type": "queue"}
    scene.broker.define(bindings=[{**binding, "routing_key": "k", "arguments": {}}])


EVERYTHING = {"user": "guest", "vhost": "behaviours", "configure": ".*", "write": ".*", "read": ".*"}


@pytest.mark.parametrize(
    "definitions",
    [
        {"permissions": [{**EVERYTHING, "write": "("}]},
        {"users": [{"name": "hasty", "password_hash": "%%%", "tags": ""}]},
        {
            "parameters": [
                {
                    "vhost": "behaviours",
                    "component": "vhost-limits",
                    "name": "limits",
                    "value": {"max-queues": "many"},
                }
            ]
        },
    ],
    ids=["a pattern that is none", "a hash that is none", "a limit that is none"],
)
def test_what_no_import_takes(scene: Scene, definitions: dict[str, Any]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        scene.broker.define(**definitions)


# ---------------------------------------------------------------------------------------------- every kind of object


def test_every_kind_of_object_survives_our_broker(broker: Target, profile: Profile) -> None:
    """A RabbitMQ's export is loaded and exported again, and the RabbitMQ takes that back, all equal."""
    every = every_definition(profile)
    try:
        broker.define(**every)
        exported = broker.definitions()
        own = Broker(profile=profile)
        warnings = definitions_json.load(own, exported, 0.0)
        taken = json.loads(json.dumps(definitions_json.export(own)))
        broker.forget(vhosts=[EVERY_VHOST], users=EVERY_USERS)
        broker.define(**{section: taken[section] for section in every})
        again = broker.definitions()
    finally:
        broker.forget(vhosts=[EVERY_VHOST], users=EVERY_USERS)
    expected = sorted_definitions(exported)
    assert {name: len(each) for name, each in expected.items() if name in every} == {
        name: len(each) for name, each in every.items()
    }
    assert sorted_definitions(taken) == expected
    assert sorted_definitions(again) == expected
    assert any("'x-unknown'" in each for each in warnings)


@pytest.mark.parametrize("other", PROFILES)
def test_every_version_loads_the_exports_of_the_others(profile: Profile, other: str) -> None:
    own = Broker(profile=PROFILES[other])
    definitions_json.load(own, every_definition(profile), 0.0)
    assert set(own.vhosts[EVERY_VHOST].queues) == {"classic", "quorum", "stream", "auto-delete", "transient"}
