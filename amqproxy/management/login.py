"""Logins by HTTP Basic authentication or by a bearer token, checked by the broker at each request."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import NamedTuple
from urllib.parse import parse_qs

from amqproxy.control import RequestError
from amqproxy.management.access import User
from amqproxy.management.broker_source import BrokerSource
from amqproxy.management.failure import Challenge, Failure, WrongPassword
from amqproxy.tokens.token_claims import is_token
from amqproxy.web.wrong_passwords import TooManyFailures, WrongPasswords

MOST_FIELDS = 10
"""Maximum number of fields of a form."""

MOST_OF_USER, MOST_OF_PASSWORD, MOST_OF_TOKEN = 1024, 4096, 16 * 1024
"""Maximum numbers of characters; longer ones are wrong, and do not reach the broker."""


class Credentials(NamedTuple):
    """The login of a request; with `has_token`, the password is an OAuth 2 token, which names the user."""

    user: str
    password: str
    has_token: bool = False

    @property
    def is_too_long(self) -> bool:
        most = MOST_OF_TOKEN if self.has_token or is_token(self.password) else MOST_OF_PASSWORD
        return len(self.user) > MOST_OF_USER or len(self.password) > most


class Login(NamedTuple):
    """A user that has logged in, and whether the virtual host of the path exists."""

    user: User
    has_vhost: bool


class LoginAttempts:
    """Counts of the logins at this API."""

    def __init__(self) -> None:
        self.succeeded = self.failed = 0

    def reset(self) -> None:
        """Count from 0 again."""
        self.succeeded = self.failed = 0


class Logins:
    """Logins to one broker. A wrong password is answered late, so that guessing is slow; a right one is not."""

    def __init__(self, broker: BrokerSource) -> None:
        self._broker = broker
        self._wrong_passwords = WrongPasswords()
        self.attempts = LoginAttempts()

    def check_may_try(self, address: str) -> None:
        """Raise a `Failure` if a login from the address would be refused unchecked."""
        try:
            self._wrong_passwords.check_may_try(address)
        except TooManyFailures as error:
            raise _too_many(error) from None

    async def log_in(self, authorization: str, address: str, vhost: str | None, *, is_local: bool, is_4: bool) -> Login:
        """Return the login of a request; `Challenge` without one, `Failure` for a wrong password."""
        credentials = _credentials(authorization)
        if credentials is None:
            raise Challenge
        return await self.checked(credentials, address, vhost, is_local=is_local, is_4=is_4)

    async def checked(
        self, credentials: Credentials, address: str, vhost: str | None = None, *, is_local: bool, is_4: bool
    ) -> Login:
        """Return the login of a user with a password or a token; `Failure` for a wrong one."""

        async def check() -> Login | None:
            if credentials.is_too_long:
                return None
            try:
                found = await self._broker.ask(
                    "broker-login", **credentials._asdict(), takes_token=True, loopback=is_local, vhost=vhost
                )
            except RequestError as error:
                if error.name == "refused":
                    return None
                raise
            token = None if found["is_internal"] else credentials.password
            user = User(found["name"], tuple(found["tags"]), frozenset(found["vhosts"]), token)
            return Login(user, found["has_vhost"])

        try:
            login = await self._wrong_passwords.checked(address, check)
        except TooManyFailures as error:
            raise _too_many(error) from None
        if login is None:
            self.attempts.failed += 1
            raise WrongPassword(is_4=is_4)
        self.attempts.succeeded += 1
        return login


def _too_many(error: TooManyFailures) -> Failure:
    return Failure(429, "too_many_requests", str(error))


def _credentials(authorization: str) -> Credentials | None:
    """Return the login of a header Authorization; None if it is missing or not valid."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() == "bearer" and encoded.strip():
        return Credentials("", encoded.strip(), has_token=True)
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Credentials(user, password) if colon else None


def form_credentials(body: bytes) -> Credentials | None:
    """Return user and password of a submitted form; None if one of them is missing."""
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return None
    users, passwords = fields.get("username"), fields.get("password")
    return Credentials(users[0], passwords[0]) if users and passwords else None
