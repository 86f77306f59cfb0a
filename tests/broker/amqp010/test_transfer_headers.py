"""Header segments of transfers, made once for messages that are alike."""

from __future__ import annotations

import math

import pytest

from amqproxy.amqp010.frame import decode_header
from amqproxy.amqp010.properties import Header
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.amqp010 import transfer_headers
from amqproxy.broker.amqp010.transfer_headers import LARGEST, TransferHeaders
from amqproxy.broker.message import Message, header_with


def message(size: int = 3, exchange: str = "e", key: str = "k", **properties: object) -> Message:
    return Message.made(exchange, key, Properties(**properties), bytes(size))  # type: ignore[arg-type]


def header_of(headers: TransferHeaders, made: Message, *, is_redelivered: bool = False) -> Header:
    data = headers.of(made, made.header, math.inf, is_redelivered)
    return decode_header(data)


@pytest.mark.parametrize("kinds", [1, 3])
def test_each_message_has_its_own(kinds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_headers, "MOST", kinds)
    headers = TransferHeaders()
    for number in [*range(40), *range(40)]:
        size, key = number % 7, f"k{number % 5}"
        made = message(size, f"e{number % 3}", key, content_type="text/plain", priority=number % 2 or None)
        header = header_of(headers, made, is_redelivered=number % 4 == 0)
        assert header.delivery is not None
        assert header.message is not None
        assert (header.delivery.exchange, header.delivery.routing_key) == (made.exchange, key)
        assert header.delivery.redelivered is (number % 4 == 0)
        assert header.delivery.priority == (number % 2 or None)
        assert (header.message.content_length, header.message.content_type) == (size, "text/plain")


def test_one_as_the_last_is_the_same_object() -> None:
    headers, one = TransferHeaders(), message(3, app_id="a")
    headers.of(one, one.header, math.inf, False)
    first = headers.of(one, one.header, math.inf, False)
    same = message(3, app_id="a")
    assert headers.of(same, same.header, math.inf, False) is first
    other = message(4, app_id="a")
    assert headers.of(other, other.header, math.inf, False) is not first


def test_a_large_one_is_not_kept() -> None:
    headers = TransferHeaders()
    for size in (LARGEST, 0, LARGEST):
        made = message(3, app_id="a", headers=Table([Field("h", "S", "x" * size)]))
        header = header_of(headers, made)
        assert header.message is not None
        assert dict(header.message.application_headers or {}) == {"h": "x" * size}
        again = headers.of(made, made.header, math.inf, False)
        assert (headers.of(made, made.header, math.inf, False) is again) is (size == 0)


def test_the_content_header_may_be_another() -> None:
    headers, one = TransferHeaders(), message()
    header_of(headers, one)
    changed = header_with(one, Field("n", "I", 1))
    data = headers.of(one, changed, math.inf, False)
    described = decode_header(data).message
    assert described is not None
    assert dict(described.application_headers or {}) == {"n": 1}


def test_a_time_is_that_of_each_message() -> None:
    headers, one = TransferHeaders(), message(expiration="1000")
    for expires_at in (5.0, 6.0):
        data = headers.of(one, one.header, expires_at, False)
        delivery = decode_header(data).delivery
        assert delivery is not None
        assert (delivery.ttl, delivery.expiration) == (1000, expires_at * 1000)


def test_headers_are_kept() -> None:
    headers = TransferHeaders()
    made = message(headers=Table([Field("a", "S", "b")]))
    first, second = header_of(headers, made), header_of(headers, made)
    assert first == second
    assert first.message is not None
    assert len(first.message.application_headers or ()) == 1
