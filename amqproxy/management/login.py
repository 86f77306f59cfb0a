"""Logins by HTTP Basic authentication, checked by the broker at each request."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import NamedTuple

from amqproxy.control import RequestError
from amqproxy.management.access import User
from amqproxy.management.broker_source import BrokerSource
from amqproxy.management.failure import Challenge, Failure, WrongPassword
from amqproxy.web.wrong_passwords import TooManyFailures, WrongPasswords


class Login(NamedTuple):
    """A user that has logged in, and whether the virtual host of the path exists."""

    user: User
    has_vhost: bool


class Logins:
    """Logins to one broker. A wrong password is answered late, so that guessing is slow; a right one is not."""

    def __init__(self, broker: BrokerSource) -> None:
        self._broker = broker
        self._wrong_passwords = WrongPasswords()

    async def log_in(self, authorization: str, address: str, vhost: str | None, *, is_local: bool, is_4: bool) -> Login:
        """Return the login of a request; `Challenge` without one, `Failure` for a wrong password."""
        credentials = _credentials(authorization)
        if credentials is None:
            raise Challenge
        user, password = credentials

        async def check() -> Login | None:
            try:
                found = await self._broker.ask(
                    "broker-login", user=user, password=password, loopback=is_local, vhost=vhost
                )
            except RequestError as error:
                if error.name == "refused":
                    return None
                raise
            return Login(User(found["name"], tuple(found["tags"]), frozenset(found["vhosts"])), found["has_vhost"])

        try:
            login = await self._wrong_passwords.checked(address, check)
        except TooManyFailures as error:
            raise Failure(429, "too_many_requests", str(error)) from None
        if login is None:
            raise WrongPassword(is_4=is_4)
        return login


def _credentials(authorization: str) -> tuple[str, str] | None:
    """Return user and password of a header Authorization; None if it is missing or not valid."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None
