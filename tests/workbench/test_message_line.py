"""Messages as lines of JSON, and of lines again."""

from __future__ import annotations

from decimal import Decimal
from math import inf

import msgspec
import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicGetOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.message_line import LineError, line_of, read_line

HEADERS = Table([Field("s", "s", 1), Field("t", "T", 5), Field("n", "F", Table({"x": None}))])


def message(properties: Properties, body: bytes = b"") -> HeldMessage:
    return HeldMessage(Command(1, BasicGetOk(1, exchange="x", routing_key="k"), properties, body), 7)


@pytest.mark.parametrize("body", [b"", b"text", b"\xff\0"], ids=["empty", "text", "bytes"])
def test_nothing_is_lost(body: bytes) -> None:
    given = message(Properties(headers=HEADERS, type="t", timestamp=9), body)
    found = read_line(line_of(given, "q").to_json())
    assert (found.exchange, found.routing_key, found.body) == ("x", "k", body)
    assert found.properties == given.properties
    assert found.properties.headers is not None
    assert found.properties.headers.octets == HEADERS.octets


def test_what_is_changed_in_the_properties_counts() -> None:
    line = msgspec.json.decode(line_of(message(Properties(headers=HEADERS, type="t")), "q").to_json())
    line["properties"]["type"] = "u"
    line["properties"]["headers"]["new"] = {"base64": "/w=="}
    found = read_line(msgspec.json.encode(line)).properties
    assert found.headers is not None
    assert (found.type, found.headers["s"], found.headers["new"]) == ("u", 1, b"\xff")


def test_a_line_may_be_written_by_hand() -> None:
    found = read_line(b'{"routing_key": "k", "body": "b", "properties": {"headers": {"a": [1, "2"]}}}')
    assert (found.exchange, found.routing_key, found.body) == ("", "k", b"b")
    assert found.properties.headers == {"a": [1, "2"]}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"body": 5}',
        b'{"body": {"base64": "?"}}',
        b'{"properties": {"colour": 1}}',
        b'{"properties": {"priority": "high"}}',
        b'{"properties": {"headers": 5}}',
        b'{"header": {"base64": "AA=="}}',
        b'{"header": {}}',
        b'{"routing_key": 5}',
        b'{"header": {"base64": "ADwAAAAAAAAAAAAAAAA="}, "properties": {"colour": null}}',
        b'{"header": {"base64": "ADwAAAAAAAAAAAAAAAA="}, "properties": {"headers": 5}}',
        b'{"routing_key": "' + b"k" * 256 + b'"}',
    ],
)
def test_a_wrong_line_is_refused(line: bytes) -> None:
    with pytest.raises(LineError):
        read_line(line)


PRICE, NOT_FINITE = Field("price", "D", Decimal("1.50")), Field("n", "d", inf)
EXACT = Table([PRICE, Field("short", "s", 1), Field("when", "T", 5), NOT_FINITE])


def test_a_decimal_keeps_its_type_and_those_of_the_others() -> None:
    given = message(Properties(headers=EXACT, correlation_id=b"\xff".decode("utf-8", "surrogateescape")))
    found = read_line(line_of(given, "q").to_json()).properties
    assert found.headers is not None
    assert (found.headers.octets, found.correlation_id) == (EXACT.octets, given.properties.correlation_id)


def test_a_change_of_one_header_keeps_the_types_of_the_others() -> None:
    given = message(Properties(headers=EXACT, correlation_id=b"\xff".decode("utf-8", "surrogateescape"), type="t"))
    line = msgspec.json.decode(line_of(given, "q").to_json())
    line["properties"]["headers"]["short"] = "text"
    line["properties"]["headers"].pop("when")
    line["properties"].pop("type")
    found = read_line(msgspec.json.encode(line)).properties
    expected = Table([PRICE, Field("short", "S", "text"), NOT_FINITE])
    assert found.headers is not None
    assert (found.headers.octets, found.correlation_id, found.type) == (
        expected.octets,
        given.properties.correlation_id,
        None,
    )


def test_names_that_are_not_text_are_kept() -> None:
    name = b"\xff\x00k".decode("utf-8", "surrogateescape")
    given = HeldMessage(Command(1, BasicGetOk(1, exchange=name, routing_key=name), Properties(), b""), 0)
    line = line_of(given, "q").to_json()
    assert msgspec.json.decode(line)["routing_key"] == {"base64": "/wBr"}
    found = read_line(line)
    assert (found.exchange, found.routing_key) == (name, name)
