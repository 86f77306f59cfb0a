"""The check of logins of one `[logins.NAME]`."""

from __future__ import annotations

from typing import Protocol

from amqproxy.proxy.logins.attempt import Identity, LoginAttempt
from amqproxy.proxy.logins.handshake import Offer


class LoginCheck(Protocol):
    """Decides who a client is."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that clients may choose; EXTERNAL only with a certificate."""

    def admits_anonymous(self, address: str) -> bool:
        """Whether a client at this address may choose ANONYMOUS."""

    @property
    def passwords_need_tls(self) -> bool:
        """Whether PLAIN and AMQPLAIN are refused without TLS."""

    @property
    def certificate_login(self) -> str:
        """The part of a certificate that names the user, one of `sockets.certificate.NAMINGS`."""

    async def check(self, attempt: LoginAttempt) -> Identity:
        """Return the client's identity; raise `LoginDenied`, after the delay that slows guesses."""

    async def check_vhost(self, identity: Identity, vhost: str, address: str) -> bool:
        """Return whether a client from this address may open a virtual host."""


class Login:
    """One `[logins.NAME]`: its present check, and what clients are offered in each protocol."""

    def __init__(self, check: LoginCheck) -> None:
        self.check = check
        self._offers: dict[str, Offer] = {}

    def offer(self, protocol: str) -> Offer:
        """Return what brokers have offered so far in a protocol."""
        return self._offers.setdefault(protocol, Offer())
