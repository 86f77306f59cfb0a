"""Logins by OAuth 2 tokens: users for the clients of the broker and of its management API."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from typing import Any

from amqproxy.broker.access.token_user import TokenUser
from amqproxy.broker.access.users import LoginRefused
from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.extras import missing_extra
from amqproxy.configuration.token_config import BrokerTokens
from amqproxy.rabbitmq.profile import Profile
from amqproxy.tokens.key_set import KeySet
from amqproxy.tokens.token_claims import WrongToken, header_of
from amqproxy.tokens.token_verifier import Claims, KeysMissing, TokenVerifier
from amqproxy.tokens.web_client import WebClient

MOST_REMEMBERED = 1000
"""Maximum number of tokens whose users are remembered: each request to the management API has one."""

MOST_CHARACTERS = 2 << 20
"""Maximum number of characters of these tokens together; a user takes some times the memory of its token."""


class TokenLogins:
    """Users by their tokens, which are checked by the keys of their issuer while `run` is running."""

    def __init__(self, settings: BrokerTokens, verifier: TokenVerifier, profile: Profile) -> None:
        self._settings = settings
        self._verifier = verifier
        self._profile = profile
        self._remembered: OrderedDict[bytes, tuple[TokenUser, int]] = OrderedDict()
        """Users of tokens, with the lengths of these, the one that was used longest ago first."""
        self._is_fetching = False
        """Whether a request waits for the key of its token."""
        verifier.keys.on_change = self._remembered.clear

    async def run(self) -> None:
        """Keep the keys current, until cancelled."""
        await self._verifier.keys.run()

    async def user(self, token: str) -> TokenUser:
        """Return the user of a token for a request of the management API; raise `LoginRefused`.

        The user is remembered until the token expires, or other keys are fetched.
        """
        digest = sha256(token.encode("utf-8", "surrogateescape")).digest()
        user, _ = self._remembered.get(digest, (None, 0))
        if user is not None and self._verifier.now() < user.expires_at:
            self._remembered.move_to_end(digest)
            return user
        try:
            _check_names_key(token)
            user = self._user(await self._claims(token))
        except (WrongToken, KeysMissing, ValueError) as error:
            raise _refusal(error) from None
        self._remember(digest, user, len(token))
        return user

    def _remember(self, digest: bytes, user: TokenUser, length: int) -> None:
        remembered, now = self._remembered, self._verifier.now()
        remembered.pop(digest, None)
        for each in [key for key, (old, _) in remembered.items() if old.expires_at <= now]:
            del remembered[each]
        remembered[digest] = user, length
        characters = sum(each for _, each in remembered.values())
        while len(remembered) > 1 and (len(remembered) > MOST_REMEMBERED or characters > MOST_CHARACTERS):
            characters -= remembered.popitem(last=False)[1][1]

    async def _claims(self, token: str) -> Claims:
        """Return the claims of a token, like `TokenVerifier.claims`.

        Only one request waits while the keys are fetched: the API has few turns for its requests to the broker, and
        a slow issuer would let tokens with invented key ids occupy all of them.
        """
        if self._is_fetching:
            return self._verifier.claims_by_known_keys(token)
        self._is_fetching = True
        try:
            return await self._verifier.claims(token)
        finally:
            self._is_fetching = False

    def log_in(self, token: str) -> TokenUser:
        """Return the user of a token for one connection; raise `LoginRefused`.

        A token whose key is unknown is refused, and its key fetched for the next attempt: the handshake cannot wait.
        """
        try:
            _check_names_key(token)
            return self._user(self._verifier.claims_by_known_keys(token))
        except (WrongToken, KeysMissing, ValueError) as error:
            raise _refusal(error) from None

    def _user(self, claims: Claims) -> TokenUser:
        settings = self._settings
        if settings.verify_aud:
            audience: Any = claims.get("aud")
            named = audience.split(" ") if isinstance(audience, str) else audience
            if not isinstance(named, list) or settings.resource_server_id not in named:
                raise WrongToken("it is for another audience")
        verifier = self._verifier
        return TokenUser(
            claims, settings, expires_at=verifier.expiry(claims), now=verifier.now(), profile=self._profile
        )


def token_logins(settings: BrokerTokens, profile: Profile) -> TokenLogins:
    """Return the logins by tokens that a config describes; raise `ConfigError` for one that cannot be used."""
    is_remote = "://" in settings.keys
    fault = missing_extra("logins", ("joserfc", "httpx2") if is_remote else ("joserfc",))
    if fault is not None:
        raise ConfigError(f"broker.tokens: {fault}")
    try:
        client = WebClient(settings.ca) if is_remote else None
    except ConfigError as error:
        raise ConfigError(f"broker.tokens.{error}") from None
    return TokenLogins(settings, TokenVerifier(settings, KeySet(settings, client)), profile)


def _check_names_key(token: str) -> None:
    """Raise `WrongToken` for a token that does not name its key, as RabbitMQ refuses it without a default key."""
    if header_of(token).get("kid") is None:
        raise WrongToken("it does not name its key")


def _refusal(error: Exception) -> LoginRefused:
    return LoginRefused(f"authentication using an OAuth 2 token failed: {error}")
