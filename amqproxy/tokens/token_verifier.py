"""Checks of access tokens (JWT, RFC 7519 and 9068): signature, times and issuer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from amqproxy.configuration.token_config import TokenKeys
from amqproxy.tokens.key_set import KeySet
from amqproxy.tokens.token_claims import MAX_TOKEN, WrongToken, decoded, header_of, time_of

Claims = dict[str, Any]


class KeysMissing(Exception):
    """The issuer's keys could not be fetched, so that no token can be checked; the text says why."""


class TokenVerifier:
    """Checks of tokens by the keys of their issuer. `now` is the time in seconds since 1970."""

    def __init__(self, config: TokenKeys, keys: KeySet, now: Callable[[], float] = time.time) -> None:
        self.config = config
        self.keys = keys
        self.now = now

    async def claims(self, token: str) -> Claims:
        """Return the claims of a valid token, with the keys fetched again if its key is unknown.

        Raise `WrongToken`, or `KeysMissing`.
        """
        kid, algorithm = self._header(token)
        return self._checked(token, algorithm, await self.keys.keys_for(kid, algorithm))

    def claims_by_known_keys(self, token: str) -> Claims:
        """Return the claims of a valid token, like `claims`; an unknown key is fetched for the next token."""
        kid, algorithm = self._header(token)
        return self._checked(token, algorithm, self.keys.known(kid, algorithm))

    def expiry(self, claims: Claims) -> float:
        """Return when a token is accepted for the last time, in seconds since 1970."""
        return time_of(claims, "exp") + self.config.leeway

    def _header(self, token: str) -> tuple[str | None, str]:
        """Return the key id and the algorithm of a token."""
        if len(token) > MAX_TOKEN:
            raise WrongToken(f"it is longer than {MAX_TOKEN} characters")
        header = header_of(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self.config.algorithms:
            raise WrongToken("its algorithm is not one of `algorithms`")
        if "crit" in header:
            raise WrongToken("it has extensions that must be understood")
        if not isinstance(kid, (str, type(None))):
            raise WrongToken("its key id is not a text")
        return kid, algorithm

    def _checked(self, token: str, algorithm: str, keys: list[Any]) -> Claims:
        if not keys:
            if self.keys.fault:
                raise KeysMissing(self.keys.fault)
            raise WrongToken("it is signed with an unknown key")
        for key in keys:
            payload = _payload(token, key, algorithm)
            if payload is not None:
                claims = decoded(payload)
                self._check_claims(claims)
                return claims
        raise WrongToken("its signature is wrong")

    def _check_claims(self, claims: Claims) -> None:
        config, now = self.config, self.now()
        if not now < self.expiry(claims):
            raise WrongToken("it has expired")
        if not time_of(claims, "nbf", 0) <= now + config.leeway:
            raise WrongToken("it is not valid before a later time")
        if config.issuer and claims.get("iss") != config.issuer:
            raise WrongToken("its issuer is another one")


def _payload(token: str, key: Any, algorithm: str) -> bytes | None:
    """Return the content of a token if the key has signed it."""
    from joserfc import jws

    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    try:
        return jws.deserialize_compact(token, key, registry=registry).payload
    except Exception:  # noqa: BLE001 - whatever joserfc and cryptography raise, the signature is not verified
        return None
