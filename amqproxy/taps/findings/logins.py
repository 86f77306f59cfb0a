"""Logins of clients."""

from __future__ import annotations

from ipaddress import ip_address

from amqproxy.amqp091.errors import AccessRefused
from amqproxy.peer import SERVER
from amqproxy.taps.findings.detector import Detector, ObservedConnection, on
from amqproxy.taps.findings.ends import ended_by
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionClosed, ConnectionOpened

CONNECTION_FORCED = 320
LOGIN_CONTROLS = frozenset({"connection.start-ok", "connection.secure-ok"})
"""Handshake steps that carry the client's credentials."""


class PlainWithoutTLS(Detector):
    """A password is sent over a connection that is not encrypted, from another machine."""

    kind = "plain-without-tls"
    severity = Severity.WARNING
    why = "The password and all messages can be read on the network."
    remedy = "Use TLS between machines, or EXTERNAL with client certificates."

    @on(ConnectionOpened)
    def _on_opened(self, event: ConnectionOpened) -> str | None:
        if self.observed.is_tls is not False or event.mechanism not in ("PLAIN", "AMQPLAIN", "RABBIT-CR-DEMO"):
            return None
        if _is_loopback(self.observed):
            return None
        return f"a password is sent in the clear ({event.mechanism}) from {self.observed.address}"


class GuestLogin(Detector):
    """A client logs in as guest from another machine."""

    kind = "guest-login"
    severity = Severity.WARNING
    why = "guest has all permissions and a well-known password; RabbitMQ by default takes it on loopback only."
    remedy = "Give each program a user of its own, and delete guest."

    @on(ConnectionOpened)
    def _on_opened(self, event: ConnectionOpened) -> str | None:
        if event.user != "guest" or _is_loopback(self.observed):
            return None
        return f"guest logs in from {self.observed.address}"


class RefusedLogin(Detector):
    """The broker has refused a login."""

    kind = "login-refused"
    severity = Severity.ERROR
    why = "A client with wrong credentials retries endlessly, and never logs in."
    remedy = "Correct its user name, password or virtual host; the broker's log has the details."

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        if is_refused_login(event):
            return event.text
        facts = self.observed.trace.facts
        is_silent = ended_by(event) is SERVER and event.is_open is False and facts.step in LOGIN_CONTROLS
        if not is_silent or facts.has_capability("authentication_failure_close"):
            return None
        return (
            f"the broker ended the connection after {facts.step} without connection.close: the client lacks the "
            "capability authentication_failure_close, with which RabbitMQ gives the reason"
        )


def is_refused_login(event: ConnectionClosed) -> bool:
    """Whether the broker refused the login; where the protocol has no code for that, by the step at which it closes."""
    if event.is_open is not False:
        return False
    return event.code == AccessRefused.code or (event.code == CONNECTION_FORCED and event.method in LOGIN_CONTROLS)


def _is_loopback(observed: ObservedConnection) -> bool:
    try:
        return ip_address(observed.address.partition("%")[0]).is_loopback
    except ValueError:
        return True  # an unknown address is given the benefit of the doubt
