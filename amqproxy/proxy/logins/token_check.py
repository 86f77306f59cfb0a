"""Checks of the access tokens that clients send as passwords (JWT, RFC 7519 and 9068)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from amqproxy.configuration.login_config import LoginTokens
from amqproxy.proxy.logins.attempt import Identity, LoginDenied
from amqproxy.proxy.logins.key_set import KeySet
from amqproxy.proxy.logins.token_claims import MAX_TOKEN, WrongToken, decoded, header_of, time_of

MAX_USER = 255
"""Longest name of a user, in characters."""

SOURCE = "token"


class TokenCheck:
    """Checks of tokens by the keys of their issuer, and by their claims."""

    def __init__(self, config: LoginTokens, keys: KeySet, now: Callable[[], float] = time.time) -> None:
        self._config = config
        self.keys = keys
        self._now = now

    async def run(self) -> None:
        """Keep the keys current, until cancelled."""
        await self.keys.run()

    async def check(self, token: str) -> tuple[Identity, float]:
        """Return the identity, and how long it may be remembered; raise `LoginDenied`."""
        try:
            claims = await self._verified(token)
            return self._identity(claims)
        except WrongToken as error:
            raise LoginDenied(f"the token is refused: {error}", source=SOURCE) from None

    async def _verified(self, token: str) -> dict[str, Any]:
        """Return the claims of a token whose signature is right."""
        if len(token) > MAX_TOKEN:
            raise WrongToken(f"it is longer than {MAX_TOKEN} characters")
        header = header_of(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in self._config.algorithms:
            raise WrongToken("its algorithm is not one of `algorithms`")
        if "crit" in header:
            raise WrongToken("it has extensions that must be understood")
        if not isinstance(kid, (str, type(None))):
            raise WrongToken("its key id is not a text")
        keys = await self.keys.keys_for(kid, algorithm)
        if not keys:
            if self.keys.fault:
                raise LoginDenied(self.keys.fault, source=SOURCE, is_failure=True)
            raise WrongToken("it is signed with an unknown key")
        for key in keys:
            payload = _payload(token, key, algorithm)
            if payload is not None:
                return decoded(payload)
        raise WrongToken("its signature is wrong")

    def _identity(self, claims: dict[str, Any]) -> tuple[Identity, float]:
        config, now = self._config, self._now()
        expires_at = time_of(claims, "exp")
        if not now < expires_at + config.leeway:
            raise WrongToken("it has expired")
        if not time_of(claims, "nbf", 0) <= now + config.leeway:
            raise WrongToken("it is not valid before a later time")
        if config.issuer and claims.get("iss") != config.issuer:
            raise WrongToken("its issuer is another one")
        audience = claims.get("aud")
        if config.audience and config.audience not in (audience if isinstance(audience, list) else [audience]):
            raise WrongToken("it is for another audience")
        user = claims.get(config.user_claim)
        if not isinstance(user, str) or not 0 < len(user) <= MAX_USER or not user.isprintable():
            raise WrongToken(f"its claim `{config.user_claim}` is not a name of at most {MAX_USER} characters")
        expires_at += config.leeway
        return Identity(user, SOURCE, expires_at=expires_at), expires_at - now


def _payload(token: str, key: Any, algorithm: str) -> bytes | None:
    """Return the content of a token if the key has signed it."""
    from joserfc import jws

    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    try:
        return jws.deserialize_compact(token, key, registry=registry).payload
    except Exception:  # noqa: BLE001 - whatever joserfc and cryptography raise, the signature is not verified
        return None
