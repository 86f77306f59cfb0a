"""Records as lines for a person."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.errors import FrameError, PreconditionFailed
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicPublish, ConnectionStartOk, ConnectionTuneOk, Method, QueueDeclare
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.wire import Table
from amqproxy.taps.record import record_error, record_frame, record_protocol_header
from amqproxy.taps.text import line
from tests.amqp091 import strategies

WHERE: dict[str, Any] = {"ts_ns": 1_700_000_000_000_456_789, "stream": 3, "connection": "a-b", "sender": "client"}


def line_of(data: bytes) -> str:
    """The line of a frame, but for the place and time."""
    text = line(record_frame(Frame(data), **WHERE))
    assert text.startswith("22:13:20.000456 #3   → ch ")
    return text.removeprefix("22:13:20.000456 #3   → ")


CASES = {
    "a method": (
        encode_method(1, BasicPublish(0, "ex", "a key", True)),
        'ch 1    basic.publish  exchange=ex routing_key="a key" mandatory=true',
    ),
    "numbers, 0 too": (
        encode_method(0, ConnectionTuneOk(0, 131072, 0)),
        "ch 0    connection.tune-ok  channel_max=0 frame_max=131072 heartbeat=0",
    ),
    "a number": (encode_method(65535, BasicAck(7)), "ch 65535 basic.ack  delivery_tag=7"),
    "a table": (
        encode_method(1, QueueDeclare(queue="q", arguments=Table({"x-max": 5, "é": None}))),
        'ch 1    queue.declare  queue=q arguments={"x-max": 5, "é": null}',
    ),
    "a secret": (
        encode_method(0, ConnectionStartOk(response=b"hidden")),
        "ch 0    connection.start-ok  client_properties={} mechanism=PLAIN response=<masked> locale=en_US",
    ),
    "a header": (
        encode_frame(HEADER, 1, ContentHeader(5, Properties(delivery_mode=2, app_id="")).encode()),
        "ch 1      header  5 bytes to come  delivery_mode=2",
    ),
    "a body": (encode_frame(BODY, 1, b"hello"), "ch 1      body  5 bytes"),
    "a heartbeat": (HEARTBEAT_FRAME, "ch 0    heartbeat"),
    "an error": (
        encode_frame(HEADER, 1, bytes.fromhex("003c0000000000000000000010")),
        "ch 1    ERROR 501 FRAME_ERROR - property flags of 2 bytes in 1 bytes at byte 19, 13 bytes lost",
    ),
}


@pytest.mark.parametrize(("data", "text"), CASES.values(), ids=CASES)
def test_frames(data: bytes, text: str) -> None:
    assert line_of(data) == text


def test_a_protocol_header() -> None:
    record = record_protocol_header(PROTOCOL_HEADER, **WHERE)
    assert line(record) == "22:13:20.000456 #3   →         protocol header: 0-9-1"


def test_errors() -> None:
    server = WHERE | {"sender": "server", "stream": 1234}
    assert line(record_error(FrameError("bad", offset=5), **server)) == (
        "22:13:20.000456 #1234 ← ch 0    ERROR 501 FRAME_ERROR - bad at byte 5"
    )
    assert line(record_error(PreconditionFailed("bad", channel=3), lost=7, **WHERE)).endswith(
        "ERROR 406 PRECONDITION_FAILED - bad, 7 bytes lost"
    )


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b2J", "a\nb", "\u202egpj.exe", "\x7f", "\u2028"])
def test_a_terminal_is_not_given_what_it_would_obey(text: str) -> None:
    for method in (BasicPublish(routing_key=text), QueueDeclare(arguments=Table({text: [text]}))):
        assert line_of(encode_method(1, method)).isprintable()


@given(strategies.methods, st.integers(0, 2**62))
def test_any_method_is_one_printable_line(method: Method, ts_ns: int) -> None:
    assert line(record_frame(Frame(encode_method(1, method)), **(WHERE | {"ts_ns": ts_ns}))).isprintable()


@pytest.mark.parametrize("ts_ns", [1_795_234_087_076_774_558_000, -1_000_000_000, 2**63])
def test_times_that_no_calendar_has(ts_ns: int) -> None:
    record = record_frame(Frame(HEARTBEAT_FRAME), **{**WHERE, "ts_ns": ts_ns})
    assert line(record).endswith("heartbeat")


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"hello", "5 bytes  hello"),
        (b"hello there", '11 bytes  "hello the"'),
        (b"a\nb", '3 bytes  "a\\nb"'),
        (b"\x1b[2J", '4 bytes  {"base64": "G1sySg=="}'),
    ],
)
def test_bodies_where_they_are_asked_for(payload: bytes, shown: str) -> None:
    record = record_frame(Frame(encode_frame(BODY, 1, payload)), body=9, **WHERE)
    assert line(record).endswith(f"ch 1      body  {shown}")


def test_a_body_that_was_captured_in_part() -> None:
    frame = Frame(encode_frame(BODY, 1, b"ab" + bytes(8)), lost=8)
    record = record_frame(frame, ts_ns=0, stream=0, connection="a-b", sender="client", body=100)
    assert line(record).endswith("ch 1      body  10 bytes, 8 not captured  ab")
    assert (record.size, record.lost) == (10, 8)


def test_a_terminal_does_not_obey_the_reason_of_an_error() -> None:
    text = line(record_error(FrameError("no \x1b[2J"), **WHERE))
    assert text.endswith("no \\u001b[2J")
