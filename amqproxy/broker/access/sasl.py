"""RabbitMQ's SASL mechanisms: PLAIN, AMQPLAIN, EXTERNAL and ANONYMOUS."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.errors import AccessRefused, CommandInvalid, Scope
from amqproxy.amqp091.login import credentials_of

PLAIN, AMQPLAIN, EXTERNAL, ANONYMOUS = "PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"

ANONYMOUS_LOGIN = ("guest", "guest")
"""User and password of clients without credentials: RabbitMQ's anonymous_login_user and anonymous_login_pass."""


def offered(mechanisms: Iterable[str], certificate_name: str | None) -> bytes:
    """Return the mechanisms offered to a client, separated by spaces: EXTERNAL only if it presented a certificate."""
    return " ".join([each for each in mechanisms if each != EXTERNAL or certificate_name]).encode()


def check(mechanism: str, mechanisms: Iterable[str], certificate_name: str | None) -> None:
    """Raise 503, as RabbitMQ does, for a mechanism that is not available; with TLS, EXTERNAL is, and may fail later."""
    if mechanism not in mechanisms or (mechanism == EXTERNAL and certificate_name is None):
        kind = "invalid" if mechanism in (PLAIN, AMQPLAIN, EXTERNAL, ANONYMOUS) else "unknown"
        raise CommandInvalid(f"{kind} authentication mechanism '{mechanism}'")


def credentials(mechanism: str, response: bytes) -> tuple[str, str]:
    """Return user name and password for a response; raise a `ProtocolError` if it holds none."""
    if mechanism == ANONYMOUS:
        return ANONYMOUS_LOGIN
    name, password = credentials_of(mechanism, response)
    if name is not None and password is not None:
        return name, password
    raise AccessRefused(f"no credentials in the response to {mechanism}", scope=Scope.CONNECTION)
