"""The credentials that the broker has accepted, each for a time."""

from __future__ import annotations

import hmac
import math
import os
from collections.abc import Callable

from amqproxy.proxy.logins.credential import Credential


class CredentialTrust:
    """Credentials by their digest, so that none is kept; `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._secret = os.urandom(32)
        self._ends: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def digest(self, credential: Credential) -> bytes:
        """Return the digest by which credentials are compared; successive tokens of the proxy's own are the same."""
        kind, secret = ("token", "") if credential.is_token else ("password", credential.password.reveal())
        found = f"{kind}\0{credential.user}\0{secret}".encode("utf-8", "surrogateescape")
        return hmac.digest(self._secret, found, "sha256")

    def holds(self, digest: bytes) -> bool:
        """Whether a credential is trusted now."""
        return self._clock() < self._ends.get(digest, -math.inf)

    def accept(self, digest: bytes, seconds: float) -> None:
        """Trust a credential from now on."""
        self._ends[digest] = self._clock() + seconds

    def withdraw(self, digest: bytes) -> None:
        """Trust a credential no more."""
        self._ends.pop(digest, None)

    def expire(self) -> None:
        """Forget those whose time is over."""
        now = self._clock()
        self._ends = {digest: end for digest, end in self._ends.items() if now < end}
