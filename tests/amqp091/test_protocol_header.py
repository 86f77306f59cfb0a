"""Which protocol the first bytes are of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.protocol_header import HEADER, NAME, recognise

KNOWN = {
    b"AMQP\x00\x00\x09\x01": "0-9-1",
    b"AMQP\x01\x01\x08\x00": "0-8",
    b"AMQP\x01\x01\x00\x09": "0-9",
    b"AMQP\x01\x01\x00\x0a": "0-10",
    b"AMQP\x00\x01\x00\x00": "1.0",
    b"AMQP\x02\x01\x00\x00": "1.0 (TLS)",
    b"AMQP\x03\x01\x00\x00": "1.0 (SASL)",
    b"AMQP\x09\x08\x07\x06": "AMQP 9.8.7.6",
    b"\x16\x03\x01\x02\x00\x01\x00\x01": "TLS",
    b"GET / HTTP/1.1\r\n": "HTTP",
    b"PRI * HTTP/2.0\r\n": "HTTP",
    b"OPTIONS * HTTP/1.1\r\n": "HTTP",
    b"\x00\x00\x00\xa0\x00\x11\x00\x01\x00\x00": "RabbitMQ stream",
    b"\x00\x00\x00\xa0\x00\x12\x00\x01\x00\x00": "unknown",
    b"SSH-2.0-OpenSSH_9.2": "unknown",
    b"\x16\x04ABCDEF": "unknown",
    b"AMQX\x00\x00\x09\x01": "unknown",
}


@pytest.mark.parametrize(("data", "name"), KNOWN.items(), ids=KNOWN.values())
def test_known(data: bytes, name: str) -> None:
    assert recognise(data) == name


def test_ours() -> None:
    assert recognise(HEADER) == NAME


@pytest.mark.parametrize("data", KNOWN)
def test_no_beginning_of_it_is_taken_for_another(data: bytes) -> None:
    for size in range(len(data)):
        assert recognise(data[:size]) in (None, KNOWN[data])


@given(st.binary(min_size=8, max_size=20))
def test_eight_bytes_suffice(data: bytes) -> None:
    assert recognise(data) is not None
    assert recognise(data) == recognise(data[:8])
