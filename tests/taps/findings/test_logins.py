"""How clients log in."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
)
from amqproxy.amqp091.wire import Table
from tests.taps.findings.inspected import Inspected


def login(user: str = "billing", mechanism: str = "PLAIN", **options: object) -> list[str]:
    inspected = Inspected(joined=True, **options)
    inspected.trace.feed_protocol_header(0)
    inspected.server(ConnectionStart(), channel=0)
    inspected.client(
        ConnectionStartOk(mechanism=mechanism, response=f"\0{user}\0secret".encode()), ConnectionOpen("/"), channel=0
    )
    inspected.server(ConnectionOpenOk(), channel=0)
    return inspected.kinds


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ({"is_tls": False}, ["plain-without-tls"]),
        ({"is_tls": True}, []),
        ({"is_tls": None}, []),
        ({"is_tls": False, "mechanism": "EXTERNAL"}, []),
        ({"is_tls": False, "address": "127.0.0.1"}, []),
        ({"is_tls": False, "address": "::1"}, []),
        ({"is_tls": False, "address": "fe80::1%eth0"}, ["plain-without-tls"]),
        ({"is_tls": False, "address": ""}, []),
        ({"is_tls": True, "user": "guest"}, ["guest-login"]),
        ({"is_tls": True, "user": "guest", "address": "127.0.0.1"}, []),
    ],
)
def test_passwords_and_guests(options: dict[str, object], kinds: list[str]) -> None:
    assert login(**options) == kinds  # type: ignore[arg-type]


def test_a_login_that_is_refused() -> None:
    inspected = Inspected(joined=True)
    inspected.trace.feed_protocol_header(0)
    inspected.server(ConnectionStart(), ConnectionClose(403, "ACCESS_REFUSED - Login was refused"), channel=0)
    assert inspected.kinds == ["login-refused"]


def test_a_refusal_later_is_no_login() -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionClose(403, "ACCESS_REFUSED - no more"), channel=0)
    assert inspected.kinds == ["connection-error"]


def refused_without_a_word(reason: str, **capabilities: bool) -> list[str]:
    inspected = Inspected(joined=True)
    inspected.trace.feed_protocol_header(0)
    inspected.server(ConnectionStart(), channel=0)
    properties = Table({"capabilities": capabilities})
    inspected.client(ConnectionStartOk(client_properties=properties, mechanism="PLAIN"), channel=0)
    inspected.later(3)
    inspected.trace.end(inspected.ts_ns, reason)
    return inspected.kinds


@pytest.mark.parametrize("reason", ["server closed without connection.close", "server reset the connection"])
def test_a_login_that_is_refused_without_a_word(reason: str) -> None:
    assert refused_without_a_word(reason) == ["login-refused"]


@pytest.mark.parametrize("reason", ["client closed without connection.close", "the capture ends"])
def test_an_end_that_is_not_the_brokers(reason: str) -> None:
    assert refused_without_a_word(reason) == []


def test_a_client_that_would_be_told_was_not_refused() -> None:
    assert refused_without_a_word("server reset the connection", authentication_failure_close=True) == []
