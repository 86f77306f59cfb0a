"""Checks of the access tokens that clients send as passwords."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from amqproxy.configuration.token_config import LoginTokens
from amqproxy.proxy.logins.attempt import Identity, LoginDenied
from amqproxy.tokens.key_set import KeySet
from amqproxy.tokens.token_claims import WrongToken
from amqproxy.tokens.token_verifier import KeysMissing, TokenVerifier

MAX_USER = 255
"""Longest name of a user, in characters."""

SOURCE = "token"


class TokenCheck:
    """Checks of tokens by the keys of their issuer, and by their claims."""

    def __init__(self, config: LoginTokens, keys: KeySet, now: Callable[[], float] = time.time) -> None:
        self._config = config
        self.keys = keys
        self._verifier = TokenVerifier(config, keys, now)

    async def run(self) -> None:
        """Keep the keys current, until cancelled."""
        await self.keys.run()

    async def check(self, token: str) -> tuple[Identity, float]:
        """Return the identity, and how long it may be remembered; raise `LoginDenied`."""
        try:
            return self._identity(await self._verifier.claims(token))
        except KeysMissing as error:
            raise LoginDenied(str(error), source=SOURCE, is_failure=True) from None
        except WrongToken as error:
            raise LoginDenied(f"the token is refused: {error}", source=SOURCE) from None

    def _identity(self, claims: dict[str, Any]) -> tuple[Identity, float]:
        config = self._config
        audience = claims.get("aud")
        if config.audience and config.audience not in (audience if isinstance(audience, list) else [audience]):
            raise WrongToken("it is for another audience")
        user = claims.get(config.user_claim)
        if not isinstance(user, str) or not 0 < len(user) <= MAX_USER or not user.isprintable():
            raise WrongToken(f"its claim `{config.user_claim}` is not a name of at most {MAX_USER} characters")
        expires_at = self._verifier.expiry(claims)
        return Identity(user, SOURCE, expires_at=expires_at), expires_at - self._verifier.now()
