"""Records: the JSON contract."""

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, METHOD, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicPublish,
    BasicQos,
    ConnectionClose,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionUpdateSecret,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.wire import MAX_TABLE_DEPTH, Array, Field, Item, Table
from amqproxy.taps.record import MASK, Record, json_value, record_error, record_frame, record_protocol_header
from tests.amqp091 import strategies

WHERE: dict[str, Any] = {"ts_ns": 1_700_000_000_123_456_789, "stream": 3, "connection": "10.0.0.1:40000-10.0.0.2:5672"}
SAID: dict[str, Any] = {**WHERE, "from": "client", "protocol": "0-9-1"}


def recorded(data: bytes) -> dict[str, Any]:
    """The JSON of a frame's record, without the place and time."""
    found: dict[str, Any] = json.loads(record_frame(Frame(data, 100), sender="client", **WHERE).to_json())
    assert {name: found.pop(name) for name in SAID} == SAID
    return found


CASES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "a method": (
        encode_method(1, BasicPublish(0, "ex", "key", True)),
        {
            "type": "method", "channel": 1, "method": "basic.publish", "size": 14,
            "arguments": {"exchange": "ex", "routing_key": "key", "mandatory": True, "immediate": False},
        },
    ),
    "a method whose fields have other names in Python": (
        encode_method(1, BasicQos(0, 5, True)),
        {
            "type": "method", "channel": 1, "method": "basic.qos", "size": 11,
            "arguments": {"prefetch_size": 0, "prefetch_count": 5, "global": True},
        },
    ),
    "a method on channel 0": (
        encode_method(0, ConnectionClose(320, "bye", 60, 40)),
        {
            "type": "method", "channel": 0, "method": "connection.close", "size": 14,
            "arguments": {"reply_code": 320, "reply_text": "bye", "class_id": 60, "method_id": 40},
        },
    ),
    "a header": (
        encode_frame(HEADER, 7, ContentHeader(5, Properties(priority=0, headers=Table({"a": [1, None]}))).encode()),
        {
            "type": "header", "channel": 7, "size": 32, "arguments": {"body_size": 5},
            "properties": {"headers": {"a": [1, None]}, "priority": 0},
        },
    ),
    "a header without properties": (
        encode_frame(HEADER, 7, ContentHeader(0).encode()),
        {"type": "header", "channel": 7, "size": 14, "arguments": {"body_size": 0}, "properties": {}},
    ),
    "a body": (encode_frame(BODY, 65535, b"hello"), {"type": "body", "channel": 65535, "size": 5}),
    "a heartbeat": (HEARTBEAT_FRAME, {"type": "heartbeat", "channel": 0, "size": 0}),
    "a malformed method": (
        encode_frame(METHOD, 2, bytes.fromhex("0032000a0000056162")),
        {
            "type": "error", "channel": 2, "size": 9, "code": 501, "offset": 114, "lost": 9,
            "reason": "FRAME_ERROR - a short string of 5 bytes in 2 bytes",
        },
    ),
    "a malformed header": (
        encode_frame(HEADER, 2, ContentHeader(0).encode()[:-2] + b"\x10\x00"),
        {
            "type": "error", "channel": 2, "size": 14, "code": 501, "offset": 121, "lost": 14,
            "reason": "FRAME_ERROR - a field of 1 bytes in 0 bytes",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "found"), CASES.values(), ids=CASES)
def test_frames(data: bytes, found: dict[str, Any]) -> None:
    assert recorded(data) == found


def test_a_protocol_header() -> None:
    record = record_protocol_header(PROTOCOL_HEADER, sender="client", **WHERE)
    assert json.loads(record.to_json()) == SAID | {"type": "protocol-header", "size": 8}
    strange = record_protocol_header(b"AMQP\x00\x01\x00\x00", sender="server", **WHERE)
    assert (strange.protocol, strange.sender, strange.channel) == ("1.0", "server", None)
    assert record_protocol_header(b"AM", sender="client", **WHERE).protocol == "unknown"


def test_an_error() -> None:
    error = FrameError("it ends in 0x00", channel=0, offset=17)
    found = json.loads(record_error(error, sender="client", lost=40, **WHERE).to_json())
    assert found == SAID | {
        "type": "error",
        "channel": 0,
        "code": 501,
        "reason": "FRAME_ERROR - it ends in 0x00",
        "offset": 17,
        "lost": 40,
    }


SECRETS = [
    (ConnectionStartOk(Table(), "PLAIN", b"\0guest\0hidden"), "response"),
    (ConnectionStartOk(Table(), "EXTERNAL", b""), "response"),
    (ConnectionSecureOk(b"hidden"), "response"),
    (ConnectionUpdateSecret(b"hidden", "it expires"), "new_secret"),
]


@pytest.mark.parametrize(("method", "field"), SECRETS)
def test_secrets_are_masked(method: Method, field: str) -> None:
    record = record_frame(Frame(encode_method(0, method)), sender="client", **WHERE)
    assert record.arguments is not None
    assert record.arguments[field] == MASK
    assert b"hidden" not in record.to_json()


def test_a_malformed_secret_is_masked_too() -> None:
    data = encode_method(0, ConnectionUpdateSecret(b"hidden", "x"))[:-1]
    raw = encode_frame(METHOD, 0, data[7:] + b"more hidden")
    assert b"hidden" not in record_frame(Frame(raw), sender="client", **WHERE).to_json()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("é", "é"),
        ("\udcff", {"base64": "/w=="}),
        (b"text", "text"),
        (b"\xff", {"base64": "/w=="}),
        (None, None),
        (
            Array([Item("x", b"\xff"), Item("F", Table({"k": b"\xfe"}))]),
            [{"base64": "/w=="}, {"k": {"base64": "/g=="}}],
        ),
        (Table([Field("\udcff", "t", True)]), {"\\udcff": True}),
        (Table([Field("twin", "I", 1), Field("twin", "I", 2)]), {"twin": {"repeated": [1, 2]}}),
        (
            Table([Field("a", "I", 1), Field("b", "V", None), Field("a", "S", "x"), Field("a", "A", Array())]),
            {"a": {"repeated": [1, "x", []]}, "b": None},
        ),
        (Table({"k": Table({"repeated": [1, 2]})}), {"k": {"repeated": [{"repeated": [1, 2]}]}}),
        (Table({"k": Table({"repeated": []})}), {"k": {"repeated": [{"repeated": []}]}}),
        (Table({"k": Table({"repeated": 1})}), {"k": {"repeated": 1}}),
        (Table({"repeated": [1, 2], "l": [Table({"repeated": [1]})]}), {"repeated": [1, 2], "l": [{"repeated": [1]}]}),
        (math.nan, "NaN"),
        (Array([math.inf, -math.inf, 1.5]), ["Infinity", "-Infinity", 1.5]),
    ],
)
def test_plain(value: Any, expected: Any) -> None:
    assert json_value(value) == expected


def test_numbers_keep_their_precision() -> None:
    table = Table([Field("T", "T", 2**64 - 1), Field("l", "l", -(2**63)), Field("D", "D", Decimal("1.50"))])
    data = encode_method(1, QueueDeclare(arguments=table))
    text = record_frame(Frame(data), sender="client", **WHERE).to_json()
    assert b'"arguments":{"T":18446744073709551615,"l":-9223372036854775808,"D":"1.50"}' in text


@pytest.mark.parametrize("letter", "FA")
def test_the_deepest_table(letter: str) -> None:
    entries = b""
    for _ in range(MAX_TABLE_DEPTH):
        entries = b"\x01k" * (letter == "F") + letter.encode() + len(entries).to_bytes(4, "big") + entries
    data = encode_method(1, QueueDeclare(arguments=Table.from_octets(b"" if letter == "F" else b"\x01k" + entries)))
    assert record_frame(Frame(data), sender="client", **WHERE).to_json().count(b"[") >= MAX_TABLE_DEPTH * (
        letter == "A"
    )


@pytest.mark.parametrize("letter", "FA")
def test_a_table_below_the_last_level_is_recorded_as_its_octets(letter: str) -> None:
    entries = b""
    for _ in range(20_000):
        entries = b"\x01k" * (letter == "F") + letter.encode() + len(entries).to_bytes(4, "big") + entries
    table = Table.from_octets(entries if letter == "F" else b"\x01k" + entries)
    record = record_frame(Frame(encode_method(1, QueueDeclare(arguments=table))), sender="client", **WHERE)
    assert b"\\u0001k" in record.to_json() or b"base64" in record.to_json()


def test_a_large_table_takes_time_in_proportion() -> None:
    """20,000 entries: an hour, where each is looked for from the first on."""
    table = Table([Field(f"{number:x}", "V", None) for number in range(20_000)])
    data = encode_method(1, QueueDeclare(arguments=table))
    record = record_frame(Frame(data), sender="client", **WHERE)
    assert record.arguments is not None
    assert len(record.arguments["arguments"]) == 20_000


def test_records_of_methods_have_no_reserved_fields() -> None:
    for cls in BY_INDEX:
        found = recorded(encode_method(1, cls()))
        assert found["method"] == cls.name
        assert not [name for name in found["arguments"] if name.startswith("reserved")]


@given(strategies.methods, st.sampled_from(["client", "server"]))
def test_any_method_has_json(method: Method, sender: str) -> None:
    record = record_frame(Frame(encode_method(1, method)), sender=sender, **WHERE)
    assert record.type == "method"
    assert set(json.loads(record.to_json())["arguments"]) == set(method.to_dict())


@given(strategies.headers)
def test_any_header_has_json(header: ContentHeader) -> None:
    record = record_frame(Frame(encode_frame(HEADER, 1, header.encode())), sender="client", **WHERE)
    assert json.loads(record.to_json())["properties"].keys() == header.properties.present().keys()


def test_what_does_not_apply_is_absent() -> None:
    record = Record(type="body", sender="client", **WHERE)
    assert set(json.loads(record.to_json())) == {"ts_ns", "stream", "connection", "from", "type"}


@pytest.mark.parametrize(
    ("payload", "most", "shown"),
    [
        (b"hello", 1024, "hello"),
        (b"hello", 3, "hel"),
        (b"hello", 0, None),
        (b"", 10, ""),
        ("añb".encode(), 2, "a"),
        ("añb".encode(), 3, "añ"),
        (b"a\n\tb\r", 10, "a\n\tb\r"),
        (b"a\0b", 10, {"base64": "YQBi"}),
        (b"\x1b[2J", 10, {"base64": "G1sySg=="}),
        (b"a\xff", 10, {"base64": "Yf8="}),
        (b"a\xc3", 10, {"base64": "YcM="}),
        (b"\xc3\xb1", 1, {"base64": "ww=="}),
    ],
)
def test_a_body_is_shown_where_that_is_asked_for(payload: bytes, most: int, shown: Any) -> None:
    record = record_frame(Frame(encode_frame(BODY, 1, payload)), sender="client", body=most, **WHERE)
    assert record.body == shown
    found = json.loads(record.to_json())
    assert found.get("body") == shown
    assert found["size"] == len(payload)


def test_nothing_but_a_body_has_one() -> None:
    for data in (
        encode_method(1, BasicPublish()),
        encode_frame(HEADER, 1, ContentHeader(5).encode()),
        HEARTBEAT_FRAME,
    ):
        assert record_frame(Frame(data), sender="client", body=100, **WHERE).body is None
