"""Parameters are read as RabbitMQ reads them; those that cannot run say why."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.shovels.definition import MOST_PREFETCHED, MOST_URIS, local_vhosts, parse_shovel

ENDS = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": ["amqp://h1", "amqp://h2"], "dest-queue": "b"}


def parsed(**changed: Any) -> Any:
    value = ENDS | {name.replace("_", "-"): each for name, each in changed.items()}
    return parse_shovel("v", "s", {name: each for name, each in value.items() if each is not None}, "cluster")


def test_the_defaults_are_rabbitmqs() -> None:
    shovel = parsed()
    assert (shovel.source.uris, shovel.source.queue) == (("amqp://",), "a")
    assert (shovel.destination.uris, shovel.destination.queue) == (("amqp://h1", "amqp://h2"), "b")
    assert (shovel.ack_mode, shovel.prefetch, shovel.delete_after) == ("on-confirm", 1000, "never")
    assert (shovel.reconnect_delay, shovel.adds_forward_headers, shovel.adds_timestamp) == (5, False, False)


@pytest.mark.parametrize(
    ("key", "value", "name", "found"),
    [
        ("reconnect_delay", 0, "reconnect_delay", 0),
        ("reconnect_delay", 1.5, "reconnect_delay", 0),
        ("reconnect_delay", -3, "reconnect_delay", 0),
        ("reconnect_delay", 7, "reconnect_delay", 7),
        ("prefetch_count", 7, "prefetch", 7),
        ("src_prefetch_count", 0, "prefetch", MOST_PREFETCHED),
        ("src_prefetch_count", -1, "prefetch", MOST_PREFETCHED),
        ("src_prefetch_count", 10**30, "prefetch", MOST_PREFETCHED),
        ("delete_after", 5, "delete_after", 5),
        ("src_delete_after", "queue-length", "delete_after", "queue-length"),
        ("add_forward_headers", True, "adds_forward_headers", True),
        ("dest_add_timestamp_header", True, "adds_timestamp", True),
        ("publish_properties", {"type": "t", "priority": 3}, "properties", {"type": "t", "priority": 3}),
        ("dest_publish_properties", [], "properties", {}),
        ("src_consumer_args", {"x-priority": 3}, "consumer_arguments", {"x-priority": 3}),
    ],
)
def test_keys(key: str, value: Any, name: str, found: Any) -> None:
    assert getattr(parsed(**{key: value}), name) == found


def test_the_newer_name_of_a_key_counts() -> None:
    assert parsed(src_prefetch_count=5, prefetch_count=6).prefetch == 5
    assert parsed(dest_publish_properties={"type": "a"}, publish_properties={"type": "b"}).properties == {"type": "a"}


def test_an_exchange_has_a_routing_key() -> None:
    assert parsed(src_queue=None, src_exchange="x").source.routing_key == ""
    shovel = parsed(dest_queue=None, dest_exchange="x", dest_exchange_key="k")
    assert (shovel.destination.exchange, shovel.destination.routing_key) == ("x", "k")
    kept = parsed(dest_queue=None).destination
    assert (kept.queue, kept.exchange, kept.routing_key) == (None, None, None)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"src_queue": None}, "src-queue or src-exchange is missing"),
        ({"src_exchange": "x"}, "exclude each other"),
        ({"src_queue": "q" * 256}, "more than 255 bytes"),
        ({"src_queue": 3}, "src-queue has the wrong type"),
        ({"src_uri": None}, "src-uri is not a URI"),
        ({"src_uri": []}, "src-uri is not a URI"),
        ({"dest_uri": ["amqp://", 3]}, "dest-uri is not a URI"),
        ({"dest_uri": ["amqp://"] * (MOST_URIS + 1)}, "more than 64 URIs"),
        ({"src_uri": "http://h"}, "src-uri: a URI begins with"),
        ({"src_protocol": "amqp10"}, "src-protocol: amqproxy shovels by AMQP 0-9-1 only"),
        ({"dest_protocol": ["amqp10"]}, "dest-protocol is not one of"),
        ({"ack_mode": "never"}, "ack-mode is not one of"),
        ({"ack_mode": "no-ack", "src_delete_after": 3}, "no-ack"),
        ({"src_delete_after": -1}, "src-delete-after is not"),
        ({"src_delete_after": True}, "src-delete-after is not"),
        ({"reconnect_delay": True}, "reconnect-delay is not a number"),
        ({"src_prefetch_count": "7"}, "src-prefetch-count is not a number"),
        ({"dest_queue": ""}, "dest-queue is empty"),
        ({"src_queue_args": {"a": [2**70]}}, "src-queue-args is not a table of AMQP"),
        ({"src_consumer_args": {"a" * 256: 1}}, "src-consumer-args is not a table of AMQP"),
        ({"src_queue_args": {"a": "x" * 2**20}}, "the parameter has .* bytes, the limit is 1048576"),
        ({"src_uri": "amqp://\ud800"}, "the parameter cannot be encoded"),
        ({"src_queue_args": "x"}, "src-queue-args is not an object"),
        ({"src_predeclared": "yes"}, "src-predeclared has the wrong type"),
        ({"dest_publish_properties": {"headers": {}}}, "headers is unknown"),
        ({"dest_publish_properties": {"type": "t" * 256}}, "type is unknown or has the wrong type"),
        ({"dest_publish_properties": {"delivery_mode": 256}}, "delivery_mode is unknown or has the wrong type"),
    ],
)
def test_what_cannot_run_says_why(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parsed(**changed)


@pytest.mark.parametrize("value", [None, 3, "text", [], ["src-uri"]])
def test_imported_values_may_be_anything(value: Any) -> None:
    with pytest.raises(ValueError, match=r"object|src-uri"):
        parse_shovel("v", "s", value, "cluster")


def test_virtual_hosts_that_are_entered_without_a_network() -> None:
    assert local_vhosts(ENDS) == ["/"]
    assert local_vhosts({"src-uri": ["amqp:///a", "amqp://h/b"], "dest-uri": "amqp://u@/c"}) == ["c", "a"]
    assert local_vhosts({"src-uri": "amqp://h/a", "src-protocol": "local", "dest-uri": 3 * ["nope"]}) == ["a"]
