"""Content headers and properties."""

import pytest
from hypothesis import given

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, Frame, encode_frame
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.wire import Table
from tests.amqp091 import strategies

HEAD = "003c 0000 0000000000000005"

CASES = {
    "none": (NO_PROPERTIES, "0000"),
    "delivery_mode": (Properties(delivery_mode=2), "1000 02"),
    "the first and the last": (Properties(content_type="a", cluster_id="b"), "8004 0161 0162"),
    "a timestamp": (Properties(timestamp=2**64 - 1), "0040 ffffffffffffffff"),
    "headers": (Properties(headers=Table({"k": True})), "2000 00000004 016b7401"),
    "present and empty": (Properties(content_encoding="", headers=Table(), priority=0), "6800 00 00000000 00"),
    "not UTF-8": (Properties(type="\udcff"), "0020 01ff"),
    "all": (
        Properties("a", "b", Table(), 1, 9, "c", "d", "e", "f", 3, "g", "h", "i", "j"),
        "fffc 0161 0162 00000000 01 09 0163 0164 0165 0166 0000000000000003 0167 0168 0169 016a",
    ),
}


def decode(data: str, offset: int = 0) -> ContentHeader:
    header: ContentHeader = Frame(encode_frame(HEADER, 4, bytes.fromhex(data)), offset).header
    return header


@pytest.mark.parametrize(("properties", "data"), CASES.values(), ids=CASES)
def test_bytes(properties: Properties, data: str) -> None:
    header = ContentHeader(5, properties)
    assert header.encode() == bytes.fromhex(HEAD + data)
    assert decode(HEAD + data) == header


def test_the_largest_body() -> None:
    assert decode("003c 0000 ffffffffffffffff 0000").body_size == 2**64 - 1


def test_flags_that_name_nothing_are_let_by_as_rabbitmq_does() -> None:
    assert decode(HEAD + "1003 02").properties == Properties(delivery_mode=2)


def test_another_class_and_weight_are_kept() -> None:
    header = decode("0032 0001 0000000000000000 0000")
    assert (header.class_id, header.weight) == (50, 1)
    assert header.encode() == bytes.fromhex("0032 0001 0000000000000000 0000")


FAULTS = {
    "no flags": ("", 19),
    "half of the flags": ("10", 19),
    "a property that is not there": ("1000", 21),
    "a string that overruns": ("8000 05 61", 22),
    "a table that overruns": ("2000 00000009 01", 25),
    "bytes after the last": ("0000 00", 21),
    "a second word of flags": ("0001 0000", 21),
}


@pytest.mark.parametrize(("data", "offset"), FAULTS.values(), ids=FAULTS)
def test_malformed_properties_name_their_place(data: str, offset: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(HEAD + data, offset=500)
    assert (caught.value.code, caught.value.offset, caught.value.channel) == (501, 500 + offset, 4)


def test_the_same_fault_twice_has_two_offsets() -> None:
    for offset in (0, 70):
        with pytest.raises(ProtocolError) as caught:
            decode(HEAD + "1000", offset)
        assert caught.value.offset == offset + 21


def test_present() -> None:
    properties = Properties(priority=0, app_id="", message_id="m")
    assert properties.present() == {"priority": 0, "message_id": "m", "app_id": ""}


def test_headers_that_are_alike_are_one() -> None:
    decode(HEAD + "1000 02")  # what comes for the second time is kept
    assert decode(HEAD + "1000 02") is decode(HEAD + "1000 02")
    assert decode(HEAD + "1000 01") == ContentHeader(5, Properties(delivery_mode=1))


@given(strategies.headers)
def test_round_trip(header: ContentHeader) -> None:
    frame = Frame(encode_frame(HEADER, 1, header.encode()))
    assert frame.header == header
    assert frame.header.encode() == header.encode()
    assert frame.body_size == header.body_size
