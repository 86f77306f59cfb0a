"""The credentials with which the proxy logs in to brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from amqproxy.rules.rewriting.secret import Secret


class Credential(msgspec.Struct, frozen=True):
    """A user and a password, or a token in its place, which `expires_at` a time in seconds since 1970 if it is known.

    `is_token` is whether connections get its successor by connection.update-secret.
    """

    user: str
    password: Secret
    is_token: bool = False
    expires_at: float = float("inf")


class CredentialFailed(Exception):
    """There is no credential: the file cannot be read, or the issuer gives none; the text says why."""


class CredentialSource(Protocol):
    """The current credential of an upstream, and its successors."""

    async def current(self) -> Credential:
        """Return a credential that has not expired; raise `CredentialFailed` if there is none."""

    def subscribe(self, renewed: Callable[[Credential], None]) -> Callable[[], None]:
        """Call `renewed` with each successor, until the returned function is called."""
