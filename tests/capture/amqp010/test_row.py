"""What frames of 0-10 have in columns; `test_arrow` has all of the recorded ones."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExecutionException,
    MessageAccept,
    MessageReject,
    MessageSubscribe,
    MessageTransfer,
)
from amqproxy.amqp010.frame import BODY, COMMAND, FIRST_FRAME, HEADER, WHOLE_SEGMENT, Frame, encode_frame, encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties, ReplyTo
from amqproxy.amqp010.properties import Header as Properties
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Entry, Map
from amqproxy.capture.amqp010.row import row_of


def present(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


METHODS: list[tuple[str, Method, dict[str, Any]]] = [
    ("client", MessageTransfer(destination="x"), {"exchange": "x"}),
    ("client", MessageTransfer(), {"exchange": ""}),
    ("server", MessageTransfer(destination="c"), {"consumer_tag": "c", "delivery_tag": 7}),
    ("client", MessageSubscribe(queue="q", destination="c"), {"queue": "q", "consumer_tag": "c"}),
    ("client", MessageAccept(transfers=SequenceSet([(3, 3)])), {"delivery_tag": 3, "multiple": False}),
    ("client", MessageAccept(transfers=SequenceSet([(3, 5)])), {"delivery_tag": 5, "multiple": True}),
    ("client", MessageAccept(transfers=SequenceSet([(1, 1), (4, 4)])), {"delivery_tag": 4, "multiple": True}),
    ("client", MessageAccept(transfers=SequenceSet()), {}),
    (
        "server",
        MessageReject(transfers=SequenceSet([(2, 2)]), code=1, text="none"),
        {"delivery_tag": 2, "multiple": False, "reply_code": 1, "reply_text": "none"},
    ),
    (
        "client",
        ExchangeBind(queue="q", exchange="x", binding_key="k"),
        {"queue": "q", "exchange": "x", "routing_key": "k"},
    ),
    ("server", ExecutionException(error_code=404, description="no"), {"reply_code": 404, "reply_text": "no"}),
]


@pytest.mark.parametrize(("sender", "method", "expected"), METHODS)
def test_arguments(sender: str, method: Method, expected: dict[str, Any]) -> None:
    assert present(row_of(Frame(encode_method(1, method)), sender, 7)) == expected


def header(*entries: Any) -> Frame:
    return Frame(encode_frame(WHOLE_SEGMENT, HEADER, 1, Properties(entries).encode()))


@pytest.mark.parametrize("sender", ["client", "server"])
def test_properties(sender: str) -> None:
    uuid = UUID(int=5)
    delivery = DeliveryProperties(
        redelivered=True, ttl=10, priority=3, timestamp=1_795_000_000_123, exchange="x", routing_key="k"
    )
    message = MessageProperties(
        content_length=9,
        message_id=uuid,
        correlation_id=b"a\xff",
        reply_to=ReplyTo("amq.direct", "r"),
        application_headers=Map({"x-jms-type": "created", "n": 1}),
    )
    assert present(row_of(header(delivery, message), sender, 7)) == {
        "exchange": "x",
        "routing_key": "k",
        "priority": 3,
        "expiration": "10",
        "message_timestamp": 1_795_000_000,
        "message_id": str(uuid),
        "correlation_id": "a\\xff",
        "reply_to": "r",
        "message_type": "created",
        "headers": b'{"x-jms-type":"created","n":1}',
        "body_size": 9,
        **({"redelivered": True} if sender == "server" else {}),
    }


def test_half_a_pair_of_utf_16_is_escaped() -> None:
    headers = Map([Entry("x-jms-type", "str16-utf16", "a\ud800")])
    assert row_of(header(MessageProperties(application_headers=headers)), "client", 1)["message_type"] == "a\\ud800"


def test_what_holds_no_whole_segment_has_nothing() -> None:
    piece = Frame(encode_frame(FIRST_FRAME, COMMAND, 1, MessageTransfer(destination="x").encode()))
    malformed = Frame(encode_frame(15, COMMAND, 1, b"\4\1\1\0\xff"))
    body = Frame(encode_frame(7, BODY, 1, b"abc"))
    for frame in (piece, malformed, body):
        assert row_of(frame, "client", 1) == {}
