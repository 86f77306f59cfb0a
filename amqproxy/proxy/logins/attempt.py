"""A client's attempt to log in, and its result."""

from __future__ import annotations

import msgspec

from amqproxy.proxy.logins.credential import Credential
from amqproxy.rules.context import Client
from amqproxy.rules.rewriting.secret import Secret


class LoginAttempt(msgspec.Struct, frozen=True):
    """A login of `client` by a mechanism; with EXTERNAL, `user` is the name in its certificate, without a password."""

    mechanism: str
    user: str
    password: Secret
    client: Client


class Identity(msgspec.Struct, frozen=True):
    """A client whose login was accepted, and by what: "file", "callback", "token", "certificate" or
    "network".

    `credential` is the one with which the proxy logs in to the broker for this client alone; `expires_at` is when the
    login ends, in seconds since 1970, if it does.
    """

    user: str
    source: str
    tags: tuple[str, ...] = ()
    credential: Credential | None = None
    expires_at: float = float("inf")


class LoginDenied(Exception):
    """A login that is refused; the text is for the log, and never for the client.

    `source` is what refused it, as in `Identity`, or "none"; `is_failure` is whether it was refused because it could
    not be checked.
    """

    def __init__(self, text: str, *, source: str = "none", is_failure: bool = False) -> None:
        super().__init__(text)
        self.source = source
        self.is_failure = is_failure

    def copy(self) -> LoginDenied:
        """Return an equal exception, to be raised in another task."""
        return LoginDenied(str(self), source=self.source, is_failure=self.is_failure)
