"""Names and passwords in connection.start-ok."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.rewriting.login import rewritten
from amqproxy.rules.rewriting.secret import Secret

AMQPLAIN = Table([Field("LOGIN", "S", "app"), Field("x", "B", 1), Field("PASSWORD", "S", "app-pw")]).octets
OCTETS = Table([Field("LOGIN", "x", b"app"), Field("PASSWORD", "x", b"app-pw")]).octets
"""Which RabbitMQ takes as well."""
NEW_AMQPLAIN = Table([Field("LOGIN", "S", "P-app"), Field("x", "B", 1), Field("PASSWORD", "S", "s3cret")]).octets


@pytest.mark.parametrize(
    ("mechanism", "response", "user", "has_password", "expected"),
    [
        ("PLAIN", b"\0app\0app-pw", None, True, ("PLAIN", b"\0P-app\0s3cret")),
        ("PLAIN", b"\0app\0app-pw", None, False, ("PLAIN", b"\0P-app\0app-pw")),
        ("PLAIN", b"as\0app\0app-pw", None, True, ("PLAIN", b"as\0P-app\0s3cret")),
        ("PLAIN", b"\0\xff\0\xfe", None, False, ("PLAIN", b"\0P-\xff\0\xfe")),
        ("PLAIN", b"\0\0", None, True, ("PLAIN", b"\0P-\0s3cret")),
        ("AMQPLAIN", AMQPLAIN, None, True, ("AMQPLAIN", NEW_AMQPLAIN)),
        # a response without name and password
        ("PLAIN", b"app", None, True, ("PLAIN", b"app")),
        ("PLAIN", b"app", "proxy", True, ("PLAIN", b"\0proxy\0s3cret")),
        ("PLAIN", b"\0a\0b\0c", "proxy", False, ("PLAIN", b"\0a\0b\0c")),
        ("AMQPLAIN", OCTETS, None, True, ("AMQPLAIN", Table({"LOGIN": "P-app", "PASSWORD": "s3cret"}).octets)),
        ("AMQPLAIN", b"\x05LOGINS", None, True, ("AMQPLAIN", b"\x05LOGINS")),
        ("AMQPLAIN", b"", "proxy", True, ("PLAIN", b"\0proxy\0s3cret")),
        ("AMQPLAIN", Table({"LOGIN": 1, "PASSWORD": "x"}).octets, "p", True, ("PLAIN", b"\0p\0s3cret")),
        ("EXTERNAL", b"", None, True, ("EXTERNAL", b"")),
        ("EXTERNAL", b"", "proxy", True, ("PLAIN", b"\0proxy\0s3cret")),
        ("EXTERNAL", b"", "proxy", False, ("EXTERNAL", b"")),
    ],
)
def test_responses(
    mechanism: str, response: bytes, user: str | None, has_password: bool, expected: tuple[str, bytes]
) -> None:
    start = ConnectionStartOk(Table({"product": "pika"}), mechanism, response, "en_US")
    new = rewritten(start, lambda name: f"P-{name}", user, Secret("s3cret") if has_password else None)
    assert (new.mechanism, new.response) == expected
    assert (new.client_properties, new.locale) == (start.client_properties, start.locale)
