"""The login of protocols that are not decoded: no tap is shown a password, and nothing else is changed."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.proxy.session.login_mask import MAX_FRAME, LoginMask

LAYER = b"AMQP\x00\x01\x00\x00"
"""Header that ends the SASL layer."""


def sasl(code: int, fields: bytes, *, is_long: bool = False) -> bytes:
    size = len(fields) + 1
    items = b"\xd0" + (size + 3).to_bytes(4) + b"\0\0\0\1" if is_long else b"\xc0" + bytes((size, 1))
    body = b"\0\x53" + bytes((code,)) + items + fields
    return (len(body) + 8).to_bytes(4) + b"\x02\x01\0\0" + body


def init(mechanism: bytes, response: bytes, *, is_long: bool = False) -> bytes:
    length = b"\xb0" + len(response).to_bytes(4) if is_long else b"\xa0" + bytes((len(response),))
    return sasl(
        0x41, b"\xa3" + bytes((len(mechanism),)) + mechanism + length + response + b"\xa1\4host", is_long=is_long
    )


def method(index: bytes, arguments: bytes) -> bytes:
    payload = index + arguments
    return b"\1\0\0" + len(payload).to_bytes(4) + payload + b"\xce"


START_OK = method(b"\0\x0a\0\x0b", b"\0\0\0\0\5PLAIN\0\0\0\x0c\0guest\0secret\5en_US")
OPEN = method(b"\0\x0a\0\x28", b"\1/\0\0")


@pytest.mark.parametrize(
    ("protocol", "sent", "shown"),
    [
        ("1.0 (SASL)", init(b"PLAIN", b"\0guest\0secret"), init(b"PLAIN", b"\0guest\0******")),
        (
            "1.0 (SASL)",
            init(b"PLAIN", b"\0guest\0secret", is_long=True),
            init(b"PLAIN", b"\0guest\0******", is_long=True),
        ),
        ("1.0 (SASL)", init(b"PLAIN", b"secret"), init(b"PLAIN", b"******")),
        ("1.0 (SASL)", init(b"SCRAM", b"secret"), init(b"SCRAM", b"******")),
        ("1.0 (SASL)", sasl(0x41, b"\xa3\x09ANONYMOUS"), sasl(0x41, b"\xa3\x09ANONYMOUS")),
        ("1.0 (SASL)", sasl(0x41, b"\xa3\x09ANONYMOUS\x40"), sasl(0x41, b"\xa3\x09ANONYMOUS\x40")),
        ("1.0 (SASL)", sasl(0x43, b"\xa0\6secret"), sasl(0x43, b"\xa0\6******")),
        ("1.0 (SASL)", sasl(0x43, b"\xa1\6secret"), sasl(0x43, b"********")),
        ("1.0 (SASL)", sasl(0x41, b"\xa3\5PLAIN\xa0\x20secret"), sasl(0x41, b"\xa3\5PLAIN********")),
        ("1.0 (SASL)", sasl(0x41, b"\xa3\x40PLAIN\xa0\6secret"), sasl(0x41, b"*" * 15)),
        ("1.0 (SASL)", sasl(0x41, b"\xa3\x0dPLAIN\xa0\6secret"), sasl(0x41, b"*" * 15)),
        ("1.0 (SASL)", sasl(0x44, b"\xa0\6secret"), sasl(0x44, b"********")),
        ("1.0 (SASL)", b"\0\0\0\x0a\2\1\0\0ab", b"\0\0\0\x0a\2\1\0\0**"),
        ("1.0 (SASL)", b"\0\0\0\x0a\2\0\0\0secret", b"*" * 14),
        ("1.0 (SASL)", (MAX_FRAME + 1).to_bytes(4) + b"\2\1\0\0secret", b"*" * 14),
        ("1.0 (SASL)", LAYER + init(b"PLAIN", b"no login"), LAYER + init(b"PLAIN", b"no login")),
        ("0-8", START_OK, START_OK[:11] + b"*" * (len(START_OK) - 12) + b"\xce"),
        ("0-9-1 (Qpid)", method(b"\0\x0a\0\x15", b"\0\0\0\6secret"), method(b"\0\x0a\0\x15", b"*" * 10)),
        ("0-8", OPEN + b"anything", OPEN + b"anything"),
        ("0-8", b"\2secrets", b"*" * 8),
        ("1.0", b"anything", b"anything"),
        ("1.0 (TLS)", b"anything", b"anything"),
    ],
)
def test_secrets_are_masked(protocol: str, sent: bytes, shown: bytes) -> None:
    assert LoginMask(protocol).feed(sent) == shown


@given(st.randoms(use_true_random=False), st.sampled_from(["1.0 (SASL)", "0-8"]))
def test_how_bytes_are_chunked_does_not_matter(source: random.Random, protocol: str) -> None:
    login = START_OK + OPEN if protocol == "0-8" else init(b"PLAIN", b"\0guest\0secret") + LAYER
    data = login + source.randbytes(50)
    whole = LoginMask(protocol).feed(data)
    assert len(whole) == len(data)
    mask, at, found = LoginMask(protocol), 0, b""
    while at < len(data):
        size = source.randint(1, 30)
        found += mask.feed(data[at : at + size])
        at += size
    assert found == whole
    assert b"secret" not in whole


@given(st.binary(max_size=200))
def test_any_bytes_are_shown_in_their_length_or_wait(data: bytes) -> None:
    mask = LoginMask("1.0 (SASL)")
    assert len(mask.feed(data)) <= len(data)
    assert mask.feed(b"\xff" * 2 * MAX_FRAME)[-1:] in (b"*", b"\xff")
