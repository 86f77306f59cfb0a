"""Content that RabbitMQ reads and does not carry out."""

from __future__ import annotations

from amqproxy.amqp091.frame import BODY, Frame, encode_frame
from amqproxy.amqp091.methods import BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, ConnectionClose, Method
from amqproxy.amqp091.transitions import CLIENT
from tests.taps.findings.inspected import Inspected
from tests.taps.trace.traced import frames_of

UNEXPECTED = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"


def test_a_body_that_is_too_long_and_the_close_for_it() -> None:
    inspected = Inspected(1)
    *head, _ = frames_of(1, BasicPublish(), body=b"abc")
    long, more = (Frame(encode_frame(BODY, 1, body)) for body in (b"abcde", b"f"))
    inspected.trace.feed(CLIENT, [*head, long, more], 0)
    inspected.server(ConnectionClose(505, UNEXPECTED, 60, 40), channel=0)
    assert [(each.kind, each.text) for each in inspected.findings] == [
        ("unread-content", "a body that was announced with 3 bytes is longer")
    ]


def test_methods_with_content_that_only_a_broker_sends() -> None:
    methods: list[Method] = [
        BasicDeliver("c", 1, False, "", "k"),
        BasicGetOk(1, False, "", "k", 0),
        BasicReturn(312, "", "", "k"),
    ]
    for method in methods:
        inspected = Inspected(1)
        inspected.client(method, body=b"x")
        inspected.server(
            ConnectionClose(503, "COMMAND_INVALID - unimplemented method", 60, method.method_id), channel=0
        )
        assert inspected.kinds == ["unread-content", "connection-error"]
        assert inspected.findings[0].text == f"{method.name} from the client, which only a server sends"


def test_the_bytes_that_were_announced() -> None:
    inspected = Inspected(1)
    inspected.client(BasicPublish(), body=b"x" * 3000)
    assert "unread-content" not in inspected.kinds
