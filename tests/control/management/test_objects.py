"""The broker's objects as entries, by kind."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from amqproxy.amqp091.methods import BasicConsume
from amqproxy.broker.definitions import definitions_json
from amqproxy.control.management.objects import COUNTED, KINDS, Selection
from amqproxy.control.request import ObjectKind
from tests.control.served import Serving

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}

ESTATE: dict[str, Any] = {
    "users": [{"name": "ann", "password_hash": "", "tags": "monitoring", "limits": {"max-channels": 3}}],
    "vhosts": [{"name": "/"}, {"name": "other", "metadata": {"description": "d", "tags": ["t"]}}],
    "permissions": [{"user": "ann", "vhost": "other", **EVERYTHING}],
    "topic_permissions": [{"user": "ann", "vhost": "other", "exchange": "amq.topic", "write": "w", "read": "r"}],
    "parameters": [{"vhost": "other", "component": "shovel", "name": "s", "value": {"a": 1}}],
    "global_parameters": [{"name": "cluster_name", "value": "c"}],
    "policies": [{"vhost": "/", "name": "p", "pattern": "^q", "definition": {"max-length": 3}}],
    "queues": [{"vhost": "other", "name": "stream", "arguments": {"x-queue-type": "stream"}}],
    "exchanges": [{"vhost": "/", "name": "x", "type": "topic"}],
    "bindings": [
        {"vhost": "/", "source": "x", "destination": "q", "routing_key": "a.*", "arguments": {"k": 1}},
        {"vhost": "/", "source": "x", "destination": "amq.fanout", "destination_type": "exchange", "routing_key": ""},
    ],
}


class Listed(Serving):
    """A broker with an estate and one client, which consumes from q."""

    def __init__(self) -> None:
        super().__init__()
        definitions_json.load(self.broker, ESTATE, 0.0)
        self.client.send(1, BasicConsume(queue="q", consumer_tag="c"))
        self.client.receive()

    def list(self, kind: str, vhost: str | None = None, name: str | None = None) -> list[Any]:
        chosen = Selection(self.broker, self.served, vhost, name)
        return [each for each in KINDS[kind](chosen) if each is not None]


def test_each_kind_can_be_asked_for() -> None:
    assert set(get_args(ObjectKind)) == set(KINDS)


@pytest.mark.parametrize(
    ("kind", "vhost", "name", "expected"),
    [
        ("vhosts", None, None, ["/", "other"]),
        ("vhosts", "other", None, ["other"]),
        ("vhosts", "none", None, []),
        ("users", None, "ann", ["ann"]),
        ("users", None, "bob", []),
        ("queues", None, None, ["q", "stream"]),
        ("queues", "/", "q", ["q"]),
        ("queues", "other", "q", []),
        ("exchanges", "/", "x", ["x"]),
        ("policies", None, None, ["p"]),
        ("operator-policies", None, None, []),
        ("parameters", None, None, ["s"]),
        ("parameters", "/", None, []),
        ("global-parameters", None, None, ["cluster_name"]),
    ],
)
def test_the_chosen_ones_are_listed(kind: str, vhost: str | None, name: str | None, expected: list[str]) -> None:
    assert [each["name"] for each in Listed().list(kind, vhost, name)] == expected


def test_consumers_are_those_of_a_queue() -> None:
    listed = Listed()
    assert [each["consumer_tag"] for each in listed.list("consumers", "/", "q")] == ["c"]
    assert listed.list("consumers", "/", "other") == []


def test_permissions_are_those_of_a_user_or_in_a_virtual_host() -> None:
    listed = Listed()
    assert [each["user"] for each in listed.list("permissions")] == ["guest", "ann"]
    assert [each["vhost"] for each in listed.list("permissions", None, "ann")] == ["other"]
    assert listed.list("permissions", "/", "ann") == []
    assert listed.list("topic-permissions") == [
        {"user": "ann", "vhost": "other", "exchange": "amq.topic", "write": "w", "read": "r"}
    ]


def test_bindings_include_those_of_the_default_exchange() -> None:
    listed = Listed()

    def ends(kind: str, name: str | None = None) -> list[tuple[str, str, str]]:
        found = listed.list(kind, "/", name)
        return [(each["source"], each["destination"], each["properties_key"][:6]) for each in found]

    assert ends("bindings") == [("", "q", "q"), ("x", "q", "a.%2A~"), ("x", "amq.fanout", "~")]
    assert ends("queue-bindings", "q") == [("", "q", "q"), ("x", "q", "a.%2A~")]
    assert ends("exchange-bindings", "amq.fanout") == [("x", "amq.fanout", "~")]
    assert ends("source-bindings", "x") == [("x", "q", "a.%2A~"), ("x", "amq.fanout", "~")]
    assert ends("source-bindings", "") == [("", "q", "q")]


def test_a_queue_has_its_messages_its_policy_and_its_consumers() -> None:
    listed = Listed()
    listed.client.publish("", "q", b"12345")
    [queue] = listed.list("queues", "/")
    assert (queue["ready"] + queue["unacked"], queue["consumers"], queue["policy"]) == (1, 1, "p")
    assert queue["effective_policy_definition"] == {"max-length": 3}
    assert (queue["exclusive"], queue["owner"], queue["segments"]) == (False, None, None)
    [stream] = listed.list("queues", "other")
    assert (stream["type"], stream["segments"]) == ("stream", 1)


def test_a_virtual_host_has_totals_and_lets_others_have_their_turn() -> None:
    listed = Listed()
    for number in range(COUNTED):
        listed.client.declare(f"q{number}")
    listed.client.publish("", "q0", b"1")
    made = list(KINDS["vhosts"](Selection(listed.broker, listed.served, "/")))
    assert made[0] is None
    assert made[-1] is not None
    assert (made[-1]["ready"], made[-1]["unacked"], made[-1]["queues"]) == (1, 0, COUNTED + 1)


def test_connections_channels_and_consumers() -> None:
    listed = Listed()
    [connection] = listed.list("connections")
    assert (connection["user"], connection["vhost"], connection["channels"]) == ("guest", "/", 1)
    [channel] = listed.list("channels", "/")
    assert (channel["channel"], channel["consumers"]) == (1, 1)
    [consumer] = listed.list("consumers")
    assert (consumer["queue"], consumer["consumer_tag"], consumer["active"]) == ("q", "c", True)
    assert (
        listed.list("connections", "other") == listed.list("channels", "other") == listed.list("consumers", "x") == []
    )


def test_who_has_not_opened_is_not_listed() -> None:
    serving = Serving(is_open=False)
    chosen = Selection(serving.broker, serving.served)
    for kind in ("connections", "channels", "consumers"):
        assert [each for each in KINDS[kind](chosen) if each is not None] == []
