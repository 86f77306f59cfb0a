"""How RabbitMQ words its closes: each text was seen from RabbitMQ 3.10."""

import pytest

from amqproxy.amqp091.errors import ErrorKind, FrameError
from amqproxy.amqp091.frame import encode_frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.rabbitmq_errors import numbers, reworded, shown
from amqproxy.amqp091.transitions import ConnectionState
from tests.broker.client import connected
from tests.real import raw

FRAME = "connection 501 0.0 FRAME_ERROR - "
ORDER = "connection 505 basic.publish UNEXPECTED_FRAME - "
NO_METHOD = "connection 505 0.0 UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = f"{ORDER}expected content header for class 60, got non content header frame instead"
NO_BODY = f"{ORDER}expected content body, got non content body frame instead"
PUBLISH = raw.publish(1, "nowhere")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            raw.frame(1, 1, b"\0\x3c\0\x0a", end=b"\0"),
            f"{FRAME}type 1, all octets = <<0,60,0,10>>: {{invalid_frame_end_marker,0}}",
        ),
        (raw.frame(8, 0, end=b"\1"), f"{FRAME}type 8, all octets = <<>>: {{invalid_frame_end_marker,1}}"),
        (raw.frame(1, 1), f"{FRAME}type 1, all octets = <<>>: unknown_frame"),
        (raw.frame(1, 1, b"\0\x3c\0"), f"{FRAME}type 1, all octets = <<0,60,0>>: unknown_frame"),
        (raw.frame(8, 0, b"boo"), f'{FRAME}type 8, all octets = <<"boo">>: unknown_frame'),
        (b"\3\0\1\0\2\0\1", f"{FRAME}type 3, all octets = <<>>: {{frame_too_large,131073,131064}}"),
        (raw.frame(8, 7), "connection 505 0.0 UNEXPECTED_FRAME - type 8, all octets = <<>>"),
        (raw.body(0, b"x"), 'connection 505 0.0 UNEXPECTED_FRAME - type 3, all octets = <<"x">>'),
        (raw.body(1, b"x"), NO_METHOD),
        (raw.header(7, 0), NO_METHOD),
        (PUBLISH + raw.body(1, b"x"), NO_HEADER),
        (PUBLISH + raw.method(1, 60, 10, bytes(7)), NO_HEADER),
        (
            PUBLISH + raw.header(1, 0, class_id=50),
            f"{ORDER}expected content header for class 60, got one for class 50 instead",
        ),
        (PUBLISH + raw.header(1, 5) + raw.header(1, 5), NO_BODY),
        (PUBLISH + raw.header(1, 5) + PUBLISH, NO_BODY),
        (PUBLISH + raw.frame(2, 1, bytes(11)), f"{FRAME}type 2, all octets = <<0,0,0,0,0,0,0,0,0,0,0>>: unknown_frame"),
        (raw.method(1, 60, 30, b"\x09x"), "connection 501 basic.cancel FRAME_ERROR - cannot decode <<9,120>>"),
        (
            raw.method(1, 90, 10, b"extra"),
            "connection 501 tx.select FRAME_ERROR - cannot decode <<101,120,116,114,97>>",
        ),
        (raw.method(1, 50, 10, b"\0\0\1\xff" + bytes(5)), f"{FRAME}Malformed UTF-8 in shortstr"),
        (raw.method(7, 60, 10, bytes(7)), "connection 504 basic.qos CHANNEL_ERROR - expected 'channel.open'"),
        (raw.channel_open(1), "connection 504 channel.open CHANNEL_ERROR - second 'channel.open' seen"),
        (raw.method(1, 60, 11), "connection 503 basic.qos-ok COMMAND_INVALID - unimplemented method"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1000])
def test_closes(data: bytes, expected: str, chunk: int) -> None:
    client = connected()
    data = encode_frame(8, 0, b"") + data
    for start in range(0, len(data), chunk):
        client.feed(data[start : start + chunk])
    assert client.transcript() == expected


def test_an_unknown_type_is_recognised_by_its_first_byte() -> None:
    client = connected()
    client.feed(raw.frame(4, 1, b"1234"))
    assert client.transcript() == f'{FRAME}type 4, all octets = <<"1234">>: unknown_frame'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "<<>>"),
        (b"text", '<<"text">>'),
        (b'a"b\\c\n', '<<"a\\"b\\\\c\\n">>'),
        (b"\x00text", "<<0,116,101,120,116>>"),
        ("é".encode(), "<<195,169>>"),
    ],
)
def test_bytes_as_erlang_prints_them(data: bytes, expected: str) -> None:
    assert shown(data) == expected
    assert numbers(data) == f"<<{','.join(map(str, data))}>>"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(ErrorKind.NOT_UTF_8, "Malformed UTF-8 in shortstr"), (None, "cannot decode <<0,0,0>>")],
)
def test_the_kind_of_an_error_decides_and_not_its_text(kind: ErrorKind | None, expected: str) -> None:
    """So a text of ours may name UTF-8, or not."""
    frame = FrameReader().feed(raw.frame(1, 1, b"\0\x3c\0\x0a\0\0\0"))[0]
    error = FrameError("of something else" if kind else "not about UTF-8", kind=kind)
    assert reworded(error, frame, ConnectionState.OPEN).text == expected
