"""The credentials that a client sends to log in."""

import pytest

from amqproxy.amqp091.errors import CommandInvalid, ProtocolError
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.access.sasl import check, credentials, offered


def amqplain(**fields: object) -> bytes:
    return Table(fields).octets


@pytest.mark.parametrize(
    ("mechanism", "response", "expected"),
    [
        ("PLAIN", b"\0ann\0secret", ("ann", "secret")),
        ("PLAIN", "\0änn\0sécret".encode(), ("änn", "sécret")),
        ("PLAIN", b"\0\0", ("", "")),
        ("AMQPLAIN", amqplain(LOGIN="ann", PASSWORD="secret"), ("ann", "secret")),
        ("AMQPLAIN", amqplain(PASSWORD="secret", more=1, LOGIN="ann"), ("ann", "secret")),
        ("AMQPLAIN", Table([Field("LOGIN", "S", "ann"), Field("PASSWORD", "I", 5)]).octets, None),
        ("AMQPLAIN", amqplain(LOGIN="ann"), None),
        ("AMQPLAIN", b"\xff\xff", None),
        ("PLAIN", b"", None),
        ("PLAIN", b"ann", None),
        ("PLAIN", b"\0ann", None),
        ("PLAIN", b"as\0ann\0secret", None),
        ("PLAIN", b"\0ann\0sec\0ret", None),
        ("ANONYMOUS", b"", ("guest", "guest")),
        ("ANONYMOUS", b"trace information", ("guest", "guest")),
        ("EXTERNAL", b"", None),
        ("SCRAM", b"\0ann\0secret", None),
    ],
)
def test_credentials(mechanism: str, response: bytes, expected: tuple[str, str] | None) -> None:
    if expected is None:
        with pytest.raises(ProtocolError):
            credentials(mechanism, response)
    else:
        assert credentials(mechanism, response) == expected


USUAL = ("PLAIN", "AMQPLAIN")
ALL = ("PLAIN", "AMQPLAIN", "EXTERNAL")


@pytest.mark.parametrize(
    ("mechanisms", "certificate", "expected"),
    [
        (USUAL, None, b"PLAIN AMQPLAIN"),
        (USUAL, "CN=x", b"PLAIN AMQPLAIN"),
        (ALL, None, b"PLAIN AMQPLAIN"),
        (ALL, "", b"PLAIN AMQPLAIN"),
        (ALL, "CN=x", b"PLAIN AMQPLAIN EXTERNAL"),
        (("EXTERNAL",), "CN=x", b"EXTERNAL"),
    ],
)
def test_offered(mechanisms: tuple[str, ...], certificate: str | None, expected: bytes) -> None:
    assert offered(mechanisms, certificate) == expected


@pytest.mark.parametrize(
    ("mechanism", "mechanisms", "certificate", "fault"),
    [
        ("PLAIN", USUAL, None, ""),
        ("PLAIN", ("EXTERNAL",), "CN=x", "invalid authentication mechanism 'PLAIN'"),
        ("EXTERNAL", ALL, "CN=x", ""),
        ("EXTERNAL", ALL, "", ""),  # over TLS, and so the answer is that it has shown no certificate
        ("EXTERNAL", ALL, None, "invalid authentication mechanism 'EXTERNAL'"),
        ("EXTERNAL", USUAL, "CN=x", "invalid authentication mechanism 'EXTERNAL'"),
        ("ANONYMOUS", ALL, None, "invalid authentication mechanism 'ANONYMOUS'"),
        ("SCRAM", ALL, "CN=x", "unknown authentication mechanism 'SCRAM'"),
    ],
)
def test_what_may_be_used(mechanism: str, mechanisms: tuple[str, ...], certificate: str | None, fault: str) -> None:
    try:
        check(mechanism, mechanisms, certificate)
        found = ""
    except CommandInvalid as error:
        found = error.text
    assert found == fault
