"""The configuration's types for OAuth 2 access tokens (JWT, RFC 9068)."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from amqproxy.configuration.values import Seconds, Strict

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]


def check_url(key: str, url: str) -> None:
    """Raise `ValueError` for a URL that is not one of HTTP, or has a user."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f".{key}: {url} is not a URL that begins with http:// or https://")
    if parts.username is not None:
        raise ValueError(f".{key}: the URL for {parts.hostname} has a user before its host: leave it out")


class TokenKeys(Strict, frozen=True):
    """The issuer of tokens, and the tokens that are accepted of it."""

    keys: Annotated[str, msgspec.Meta(min_length=1)]
    """A URL or a file with the issuer's key set (JWKS, RFC 7517)."""
    issuer: str = ""
    """The only accepted issuer (`iss`); by default, any that signs with one of the keys."""
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256")
    """Accepted signatures. Symmetric ones and none are never accepted."""
    leeway: Annotated[float, msgspec.Meta(ge=0, le=600)] = 10.0
    """Difference between the clocks of the issuer and this machine that is tolerated, in seconds."""
    refresh: Seconds = 600.0
    """Time after which the key set is fetched again; it is also fetched for a key that it lacks."""
    ca: str = ""
    """File with the authorities that may have signed the certificate of the key set's server; by default, those of the
    system.
    """

    def __post_init__(self) -> None:
        if "://" in self.keys:
            check_url("keys", self.keys)


class LoginTokens(TokenKeys, frozen=True):
    """OAuth 2 access tokens (JWT, RFC 9068) that clients send as their passwords."""

    audience: str = ""
    """The audience (`aud`) that tokens must have; by default, it is not checked."""
    user_claim: str = "sub"
    """The claim that names the user."""


class BrokerTokens(TokenKeys, frozen=True):
    """OAuth 2 access tokens (JWT) as logins of the integrated broker and its management API, with the scopes of
    RabbitMQ's rabbitmq_auth_backend_oauth2: see docs/broker.md.
    """

    resource_server_id: Annotated[str, msgspec.Meta(min_length=1)] = "rabbitmq"
    """The audience (`aud`) that tokens must have."""
    scope_prefix: str | None = None
    """The beginning of the scopes that count; by default, the `resource_server_id` and a dot."""
    scope_aliases: dict[str, str | tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Scopes that a scope stands for, by its name; a text has them separated by spaces."""
    additional_scopes_key: str = ""
    """Claims with more scopes, separated by spaces; a dot leads into a claim's object."""
    preferred_username_claims: tuple[str, ...] = ("sub", "client_id")
    """The claims that name the user, of which the first that a token has counts."""
    verify_aud: bool = True
    """Whether tokens need the audience."""
    algorithms: tuple[Algorithm, ...] = (
        *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
    )
    """Accepted signatures. Symmetric ones and none are never accepted."""
    leeway: Annotated[float, msgspec.Meta(ge=0, le=600)] = 0.0
    """Difference between the clocks of the issuer and this machine that is tolerated, in seconds."""

    @property
    def prefix(self) -> str:
        """The beginning of the scopes that count."""
        return f"{self.resource_server_id}." if self.scope_prefix is None else self.scope_prefix
