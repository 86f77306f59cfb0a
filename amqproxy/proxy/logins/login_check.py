"""The check of logins of one `[logins.NAME]`."""

from __future__ import annotations

from typing import Protocol

from amqproxy.proxy.logins.attempt import Identity, LoginAttempt


class LoginCheck(Protocol):
    """Decides who a client is."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that clients may choose; EXTERNAL only with a certificate."""

    @property
    def passwords_need_tls(self) -> bool:
        """Whether PLAIN and AMQPLAIN are refused without TLS."""

    async def check(self, attempt: LoginAttempt) -> Identity:
        """Return the client's identity; raise `LoginDenied`, after the delay that slows guesses."""

    async def check_vhost(self, identity: Identity, vhost: str, address: str) -> bool:
        """Return whether a client from this address may open a virtual host."""
