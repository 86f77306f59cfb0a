"""Renewals of a client's login on its open connection, by connection.update-secret."""

from __future__ import annotations

import msgspec

from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied
from amqproxy.proxy.logins.login_check import Login
from amqproxy.proxy.upstream import Unreachable
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.sockets.transport import TransportBroken


class LoginRenewal:
    """Checks the further secrets of a client whose login was accepted, as `login` checks them now.

    `is_passed_on` is whether the proxy has logged in with the client's own secret, so that the broker needs the next.
    """

    __slots__ = ("_attempt", "_login", "_user", "is_passed_on")

    def __init__(self, login: Login, attempt: LoginAttempt, identity: Identity, *, is_passed_on: bool) -> None:
        self._login = login
        self._attempt = msgspec.structs.replace(attempt, password=Secret(""))
        self._user = identity.user
        self.is_passed_on = is_passed_on

    async def check(self, secret: Secret) -> Identity | None:
        """Return the renewed identity; `None` for a login by certificate or network, which no secret renews.

        Raise `LoginDenied` if the secret is refused, or is another user's, which RabbitMQ does not accept either.
        """
        if self._attempt.mechanism in ("EXTERNAL", "ANONYMOUS"):
            return None
        try:
            identity = await self._login.check.check(msgspec.structs.replace(self._attempt, password=secret))
        except (Unreachable, TransportBroken) as error:  # where the broker itself is asked, as for a pool
            raise LoginDenied(str(error), is_failure=True) from None
        if identity.user != self._user:
            raise LoginDenied(f"the secret is that of {identity.user}", source=identity.source)
        return identity
