"""Which protocol the first bytes are of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.protocol_header import HEADER, NAME, foreign_answer, recognise, recognise_answer

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
    b"CONNECT broker:5672 HTTP/1.1\r\n": "HTTP",
    b"CONNECT\naccept-version:1.2\n": "STOMP",
    b"CONNECT\r\naccept-version:1.2\r\n": "STOMP",
    b"STOMP\naccept-version:1.2\n": "STOMP",
    b"\x10\x0c\x00\x04MQTT\x04": "MQTT",
    b"\x10\x0e\x00\x06MQIsdp\x03": "MQTT",
    b"\x10\xff\x01\x00\x04MQTT\x05": "MQTT",
    b"\x10\xff\xff\xff\x01\x00\x04MQTT": "MQTT",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n": "PROXY protocol",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11": "PROXY protocol",
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


ANSWERS = {
    b"HTTP/1.1 400 Bad Request\r\n": "HTTP",
    b"\x15\x03\x03\x00\x02\x02\x46": "TLS",
    b"\x15\x03\x01\x00\x02\x02\x16": "TLS",
    b"AMQP\x00\x01\x00\x00": "AMQP 1.0",
    b"AMQP\x03\x01\x00\x00": "AMQP 1.0 (SASL)",
    b"AMQP\x01\x01\x00\x0a": "AMQP 0-10",
    b"AMQP\x00\x00\x09\x01": "AMQP 0-9-1",
    b"AMQP\x09\x08\x07\x06": "AMQP 9.8.7.6",
    b"ERROR\nversion:1.2\n": "STOMP",
    b"\x20\x02\x00\x01": "MQTT",
    b"SSH-2.0-OpenSSH_9.2\r\n": "SSH",
    b"220 mail ESMTP\r\n": "",
    b"\x01\x00\x00\x00\x00\x01\xf0\x00\x0a\x00\x0a": "",
}


@pytest.mark.parametrize(("data", "name"), ANSWERS.items(), ids=map(repr, ANSWERS))
def test_answers_of_servers(data: bytes, name: str) -> None:
    assert recognise_answer(data) == name


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "the server speaks HTTP, not AMQP 0-9-1"),
        (b"220 mail ESMTP\r\n", "the server does not speak AMQP 0-9-1: it begins with b'220 mail ESMTP\\r\\n'"),
        (b"\x01\x00\x00\x00\x00\x01\xf0\x00\x0a\x00\x0a", ""),
    ],
)
def test_what_is_wrong_with_an_answer(data: bytes, text: str) -> None:
    assert foreign_answer(data) == text
