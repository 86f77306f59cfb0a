"""Headers that a shovel adds are RabbitMQ's, and all others stay as they are."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Field, Item, Table
from amqproxy.shovels.property_changes import PropertyChanges
from tests.shovels.shovel_frames import delivery, shovel_of


def changes(**changed: Any) -> PropertyChanges:
    return PropertyChanges(shovel_of(**changed), "amqp://", "amqp://h", lambda: 1234.5)


def changed(made: PropertyChanges, properties: Properties) -> ContentHeader:
    header: ContentHeader = Frame(made.frame(delivery(1, b"12345", properties)[1])).header
    assert header.body_size == 5
    return header


def test_without_keys_nothing_changes() -> None:
    assert changes().are_none
    assert not changes(dest_add_timestamp_header=True).are_none


def test_forward_headers() -> None:
    """The entry that RabbitMQ 3.10 and 4.3 were seen to add."""
    made = changes(dest_add_forward_headers=True)
    kept = Table([Field("n", "b", 3)])
    once = changed(made, Properties(headers=kept, type="t")).properties
    assert once.headers is not None
    assert once.headers.fields[0] == kept.fields[0]
    assert dict(once.headers["x-shovelled"][0]) == {
        "shovelled-by": "cluster",
        "shovel-type": "dynamic",
        "shovel-name": "s",
        "shovel-vhost": "v",
        "src-uri": "amqp://",
        "dest-uri": "amqp://h",
        "src-queue": "a",
        "dest-queue": "b",
    }
    assert once.type == "t"
    twice = changed(made, once).properties.headers
    assert twice is not None
    assert (len(twice["x-shovelled"]), len(twice)) == (2, 2)


def test_exchanges_in_forward_headers() -> None:
    made = changes(src_queue=None, src_exchange="x", dest_queue=None, dest_exchange="y", add_forward_headers=True)
    headers = changed(made, Properties()).properties.headers
    assert headers is not None
    entry = dict(headers["x-shovelled"][0])
    assert (entry["src-exchange"], entry["src-exchange-key"], entry["dest-exchange"]) == ("x", "", "y")
    assert "dest-exchange-key" not in entry


def test_an_entry_that_is_not_an_array_is_replaced() -> None:
    made = changes(dest_add_forward_headers=True)
    headers = changed(made, Properties(headers=Table({"x-shovelled": 3}))).properties.headers
    assert headers is not None
    assert len(headers["x-shovelled"]) == 1


def test_a_timestamp() -> None:
    made = changes(dest_add_timestamp_header=True)
    headers = changed(made, Properties()).properties.headers
    assert headers == Table({"x-shovelled-timestamp": Item("l", 1234)})


def test_a_local_destination_has_the_headers_of_a_local_shovel() -> None:
    made = changes(dest_protocol="local", dest_add_forward_headers=True, dest_add_timestamp_header=True)
    headers = changed(made, Properties()).properties.headers
    assert headers == Table(
        {
            "x-opt-shovelled-by": "cluster",
            "x-opt-shovel-type": "dynamic",
            "x-opt-shovel-name": "s",
            "x-opt-shovelled-timestamp": Item("l", 1234500),
        }
    )


def test_fixed_properties() -> None:
    made = changes(dest_publish_properties={"delivery_mode": 2, "type": "new"})
    found = changed(made, Properties(type="old", priority=3, headers=Table({"a": 1}))).properties
    assert found == Properties(type="new", priority=3, delivery_mode=2, headers=Table({"a": 1}))
