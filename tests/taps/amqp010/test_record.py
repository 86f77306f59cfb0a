"""Frames of 0-10 as JSON."""

import json
import math
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionResult, MessageAccept, MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import ConnectionSecureOk, ConnectionStartOk, SessionAttach, SessionCompleted
from amqproxy.amqp010.frame import COMMAND, CONTROL, Frame, encode_frame
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties, ReplyTo
from amqproxy.amqp010.results import QueueQueryResult, XaResult, Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Array, Entry, List, Map, UnknownStruct
from amqproxy.taps.amqp010.record import answered_name, plain, record_amqp010_frame
from amqproxy.taps.record import MASK


def records(assembly: Assembly, frame_max: int = 4096, **options: Any) -> list[dict[str, Any]]:
    raw, found = assembly.encode(frame_max), []
    while raw:
        size = int.from_bytes(raw[2:4])
        record = record_amqp010_frame(
            Frame(raw[:size]), ts_ns=1, stream=2, connection="a-b", sender="client", command_id=7, **options
        )
        found.append(json.loads(record.to_json()))
        raw = raw[size:]
    return found


def test_a_result_names_the_command_that_it_is_of() -> None:
    assert answered_name(ExecutionResult(value=QueueQueryResult(queue="q"))) == "queue.query"
    assert answered_name(ExecutionResult(value=XaResult())) is None
    assert answered_name(SessionCompleted(commands=SequenceSet([(0, 0)]))) is None


def test_a_message() -> None:
    header = Header(
        (
            DeliveryProperties(routing_key="k", priority=4, redelivered=True),
            MessageProperties(
                content_length=5,
                message_id=UUID(int=1),
                reply_to=ReplyTo(exchange="x"),
                application_headers=Map({"n": 5, "bytes": b"\xff"}),
            ),
        )
    )
    command, head, body = records(Assembly(1, MessageTransfer(destination="x"), header, b"hello"), body=3)
    assert command == {
        "ts_ns": 1,
        "stream": 2,
        "connection": "a-b",
        "from": "client",
        "protocol": "0-10",
        "channel": 1,
        "type": "command",
        "method": "message.transfer",
        "arguments": {"destination": "x"},
        "size": 8,
        "command_id": 7,
        "flags": "Bbe",
    }
    assert (head["type"], head["flags"]) == ("header", "be")
    assert head["properties"] == {
        "redelivered": True,
        "priority": 4,
        "routing_key": "k",
        "content_length": 5,
        "message_id": "00000000-0000-0000-0000-000000000001",
        "reply_to": {"exchange": "x"},
        "application_headers": {"n": 5, "bytes": {"base64": "/w=="}},
    }
    assert (body["type"], body["flags"], body["size"], body["body"]) == ("body", "Ebe", 5, "hel")


def test_a_command_in_several_frames_has_its_name_first() -> None:
    first, *others = records(Assembly(1, QueueDeclare(queue="q" * 200)), frame_max=80)
    assert (first["method"], "arguments" in first) == ("queue.declare", False)
    assert {each.get("method") for each in others} == {None}
    assert {each["type"] for each in others} == {"command"}


@pytest.mark.parametrize(
    "control", [ConnectionStartOk(mechanism="PLAIN", response=b"\0u\0secret"), ConnectionSecureOk(response=b"secret")]
)
def test_secrets_are_masked(control: ConnectionStartOk | ConnectionSecureOk) -> None:
    (record,) = records(Assembly(0, control))
    assert record["arguments"]["response"] == MASK
    assert "secret" not in json.dumps(record)


@pytest.mark.parametrize(("kind", "code"), [(CONTROL, 501), (COMMAND, 503)])
def test_what_is_malformed_is_an_error(kind: int, code: int) -> None:
    frame = Frame(encode_frame(15, kind, 1, b"\xee\xee\xee"))
    record = record_amqp010_frame(frame, ts_ns=1, stream=2, connection="a-b", sender="client")
    assert (record.type, record.code, record.lost) == ("error", code, 3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (SequenceSet([(0, 3), (7, 7)]), [[0, 3], [7, 7]]),
        (List([1, List(["a"])]), [1, ["a"]]),
        (Array("str16", ["a", "b"]), ["a", "b"]),
        (Decimal("1.50"), "1.50"),
        (Xid(1, b"g", b"\xff"), {"format": 1, "global_id": "g", "branch_id": {"base64": "/w=="}}),
        (UnknownStruct(0x0909, b"\xff"), {"base64": "AAAAAwkJ/w=="}),
        (Map([Entry("k", "str16-utf16", "\ud800")]), {"k": {"base64": "7aCA"}}),
        (Map([Entry("k", "char-utf32", "\ud800")]), {"k": {"base64": "7aCA"}}),
        (Map([Entry("k", "int32", 1), Entry("k", "str8", "x")]), {"k": {"repeated": [1, "x"]}}),
        (Map({"k": Map({"repeated": List([1, 2])})}), {"k": {"repeated": [{"repeated": [1, 2]}]}}),
        (Array("double", [math.nan, -math.inf]), ["NaN", "-Infinity"]),
        (None, None),
        (True, True),
    ],
)
def test_values(value: object, shown: object) -> None:
    assert plain(value) == shown


def test_names_and_sets() -> None:
    (attach,) = records(Assembly(3, SessionAttach(b"s")))
    assert attach["arguments"] == {"name": "s", "force": False}
    (accept,) = records(Assembly(3, MessageAccept(transfers=SequenceSet([(1, 2)]))))
    assert accept["arguments"] == {"transfers": [[1, 2]]}
