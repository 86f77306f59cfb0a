"""Methods and their bytes. Names, ids and fields are compared in test_specification."""

import pytest
from hypothesis import given

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BY_NAME,
    METHODS,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConnectionClose,
    ConnectionStart,
    ConnectionTune,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    spec_name,
)
from amqproxy.amqp091.wire import Table
from tests.amqp091 import strategies

CASES = {
    "basic.publish": (BasicPublish(0, "ex", "key", True, False), "003c0028 0000 026578 036b6579 01"),
    "basic.publish immediate": (BasicPublish(7, "", "", False, True), "003c0028 0007 00 00 02"),
    "basic.nack": (BasicNack(2**64 - 1, True, False), "003c0078 ffffffffffffffff 01"),
    "basic.qos": (BasicQos(1, 2, True), "003c000a 00000001 0002 01"),
    "queue.declare": (
        QueueDeclare(0, "q", False, True, False, True, True, Table({"x": 1})),
        "0032000a 0000 0171 1a 00000007 0178 49 00000001",
    ),
    "queue.declare-ok": (QueueDeclareOk("é", 2**32 - 1, 0), "0032000b 02c3a9 ffffffff 00000000"),
    "connection.tune": (ConnectionTune(2047, 131072, 60), "000a001e 07ff 00020000 003c"),
    "connection.close": (ConnectionClose(320, "bye", 60, 40), "000a0032 0140 03627965 003c 0028"),
    "connection.start": (
        ConnectionStart(0, 9, Table(), b"PLAIN", b"a b"),
        "000a000a 0009 00000000 00000005504c41494e 00000003612062",
    ),
}  # fmt: skip


def decode(payload: bytes) -> Method:
    method: Method = Frame(encode_frame(METHOD, 1, payload)).method
    return method


@pytest.mark.parametrize(("method", "data"), CASES.values(), ids=CASES)
def test_bytes(method: Method, data: str) -> None:
    assert method.encode() == bytes.fromhex(data)
    assert decode(bytes.fromhex(data)) == method


def test_the_tables_agree() -> None:
    assert [cls.index for cls in BY_INDEX] == list(range(len(BY_INDEX)))
    assert {cls.class_id << 16 | cls.method_id: cls for cls in BY_INDEX} == METHODS
    assert {cls.name: cls for cls in BY_INDEX} == BY_NAME


@pytest.mark.parametrize("cls", BY_INDEX, ids=[cls.name for cls in BY_INDEX])
def test_every_method_can_be_made_from_nothing(cls: type[Method]) -> None:
    assert decode(cls().encode()) == cls()


def test_a_method_as_a_dictionary_has_the_names_of_the_specification() -> None:
    assert ConnectionClose(200, "", 1, 2).to_dict() == {
        "reply_code": 200,
        "reply_text": "",
        "class_id": 1,
        "method_id": 2,
    }
    assert BasicQos().to_dict() == {"prefetch_size": 0, "prefetch_count": 0, "global": False}
    assert "reserved_1" not in QueueDeclare().to_dict()
    assert spec_name("queue") == "queue"


FAULTS = {
    "nothing": ("0032000a", 501, 11),
    "cut within a number": ("0032000a 00", 501, 11),
    "a string that overruns": ("0032000a 0000 05 6162", 501, 14),
    "no byte of bits": ("0032000a 0000 00", 501, 14),
    "no length of a table": ("0032000a 0000 00 00 0000", 501, 15),
    "a table that overruns": ("0032000a 0000 00 00 00000001", 501, 19),
    "more than its fields": ("0032000a 0000 00 00 00000000 00", 501, 19),
    "a name that is not UTF-8": ("0032000a 0000 02 61ff 00 00000000", 501, 15),
    "a table that ends after a name": ("0032000a 0000 00 00 00000002 0178", 501, 21),
    "a table that overruns within": ("0032000a 0000 00 00 00000004 0978 4900", 501, 20),
    "an unknown type": ("0032000a 0000 00 00 00000003 0178 7a", 502, 21),
}


@pytest.mark.parametrize(("data", "code", "offset"), FAULTS.values(), ids=FAULTS)
def test_malformed_arguments_name_their_place(data: str, code: int, offset: int) -> None:
    frame = Frame(encode_frame(METHOD, 9, bytes.fromhex(data)), 1000)
    with pytest.raises(ProtocolError) as caught:
        frame.method  # noqa: B018
    error = caught.value
    assert (error.code, error.offset) == (code, 1000 + offset), error
    assert (error.channel, error.class_id, error.method_id, error.scope) == (9, 50, 10, "connection")


def test_unused_bits_and_reserved_fields_are_let_by() -> None:
    method = decode(bytes.fromhex("003c0028 abcd 00 00 fd"))
    assert method == BasicPublish(0xABCD, "", "", True, False)


@pytest.mark.parametrize(
    ("method", "error"),
    [(BasicPublish(exchange="x" * 256), ValueError), (QueueDeclare(queue="ü" * 128), ValueError)],
)
def test_what_does_not_fit_cannot_be_encoded(method: Method, error: type[Exception]) -> None:
    with pytest.raises(error):
        method.encode()


@given(strategies.methods, strategies.channels)
def test_round_trip(method: Method, channel: int) -> None:
    frame = Frame(encode_method(channel, method))
    assert frame.method == method
    assert frame.channel == channel
    assert encode_method(channel, frame.method) == frame.raw
