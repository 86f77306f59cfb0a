"""One port for both protocols: the first bytes decide."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.protocol_header import HEADER as HEADER_010
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.broker.amqp010.connection import Amqp010Connection
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.protocol_choice import ProtocolChoice


def choice(broker: Broker) -> ProtocolChoice:
    return ProtocolChoice(lambda dialect: dialect.connection(broker, is_loopback=True, wake=lambda: None))


@pytest.mark.parametrize("step", [1, 3, 8, 100])
@pytest.mark.parametrize(
    ("header", "kind", "answer"),
    [
        (HEADER, Amqp091Connection, b"\x01\x00\x00"),
        (HEADER_010, Amqp010Connection, HEADER_010),
        (b"AMQP\x00\x01\x00\x00", Amqp091Connection, HEADER),
        (b"GET / HTTP/1.1\r\n", Amqp091Connection, HEADER),
    ],
)
def test_the_protocol_header_decides(header: bytes, kind: type, answer: bytes, step: int) -> None:
    broker = Broker()
    chosen = choice(broker)
    for start in range(0, len(header), step):
        if not chosen.is_made:
            chosen.feed(header[start : start + step], 0.0)
    assert chosen.is_made
    assert isinstance(chosen.found, kind)
    assert chosen.found.take_output().startswith(answer)
    assert list(broker.connections) == [chosen.found]
