"""What a client says of itself to log in."""

import pytest

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.sasl import credentials, offered


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


@pytest.mark.parametrize(
    ("certificate", "expected"),
    [(None, b"PLAIN AMQPLAIN"), ("", b"PLAIN AMQPLAIN"), ("CN=x", b"PLAIN AMQPLAIN EXTERNAL")],
)
def test_offered(certificate: str | None, expected: bytes) -> None:
    assert offered(certificate) == expected
