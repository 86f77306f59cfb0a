"""What is known of a client from its handshake, by each SASL mechanism."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStartOk, ConnectionTuneOk
from amqproxy.amqp091.wire import Array, Table
from amqproxy.rules.client_info import readable_property, updated_client
from amqproxy.rules.context import Client

AMQPLAIN = b"\x05LOGINS\0\0\0\x06orders\x08PASSWORDS\0\0\0\x06secret"
"""As RabbitMQ's own clients write it: a table without its length."""


@pytest.mark.parametrize(
    ("mechanism", "response", "user"),
    [
        ("PLAIN", b"\0orders\0secret", "orders"),
        ("PLAIN", b"admin\0orders\0secret", "orders"),  # RFC 4616: authorization identity, user, password
        ("PLAIN", "\0dürer\0secret".encode(), "dürer"),
        ("PLAIN", b"\0\xff\0secret", "\udcff"),
        ("PLAIN", b"\0\0", ""),
        ("PLAIN", b"\0orders", ""),
        ("PLAIN", b"\0orders\0secret\0more", ""),
        ("PLAIN", b"", ""),
        ("AMQPLAIN", AMQPLAIN, "orders"),
        ("AMQPLAIN", AMQPLAIN[:-1], ""),
        ("AMQPLAIN", b"\x05LOGINI\0\0\0\x06", ""),
        ("AMQPLAIN", b"\x08PASSWORDS\0\0\0\x06secret", ""),
        ("AMQPLAIN", b"", ""),
        ("AMQPLAIN", b"\x05LOGINx\0\0\0\x06orders\x08PASSWORDS\0\0\0\x06secret", "orders"),
        ("AMQPLAIN", AMQPLAIN + b"\x05LOGINS\0\0\0\x03ops", "orders"),  # RabbitMQ takes the first
        ("EXTERNAL", b"\0orders\0secret", ""),
        ("plain", b"\0orders\0secret", ""),
    ],
)
def test_who_logs_in(mechanism: str, response: bytes, user: str) -> None:
    assert user_of(ConnectionStartOk(mechanism=mechanism, response=response)) == user


def test_with_external_the_user_is_from_the_certificate_not_from_the_response() -> None:
    start = ConnectionStartOk(mechanism="EXTERNAL", response=b"ops")
    assert updated_client(Client(tls_subject="CN=orders,O=acme"), start).user == "CN=orders,O=acme"
    assert updated_client(Client(), start).user == ""
    sent = ConnectionStartOk(mechanism="PLAIN", response=b"\0orders\0secret")
    assert updated_client(Client(tls_subject="CN=ops"), sent).user == "orders"


@given(st.sampled_from(["PLAIN", "AMQPLAIN", "EXTERNAL"]), st.binary(max_size=40))
def test_any_response_has_a_user_or_none(mechanism: str, response: bytes) -> None:
    user_of(ConnectionStartOk(mechanism=mechanism, response=response))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        (None, None),
        (True, True),
        ("text", "text"),
        (b"bytes", "bytes"),
        (b"\xff", "\udcff"),
        (Decimal("1.5"), Decimal("1.5")),
        (Table({"a": Table({"b": b"c"})}), {"a": {"b": "c"}}),
        (Table({"a": Array([1, "b", Table({"c": None})])}), {"a": [1, "b", {"c": None}]}),
    ],
)
def test_values_as_rules_read_them(value: Any, expected: Any) -> None:
    assert readable_property(value) == expected


def test_step_by_step() -> None:
    client = Client(session=3, address="10.0.0.7")
    start = ConnectionStartOk(Table({"product": "pika"}), "PLAIN", b"\0orders\0secret")
    known = updated_client(client, start)
    assert known == Client(session=3, address="10.0.0.7", user="orders", properties={"product": "pika"})
    assert updated_client(known, ConnectionTuneOk(1, 2, 3)) is known
    assert updated_client(known, ConnectionOpen("shop")).vhost == "shop"
    assert updated_client(known, ConnectionOpen("shop")).user == "orders"
    assert client == Client(session=3, address="10.0.0.7")
