"""A user that an OAuth 2 token names, with the tags and the permissions of its scopes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.token_scopes import Grant, grants_of, matches, scopes_of, tags_of
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.configuration.token_config import BrokerTokens
from amqproxy.rabbitmq.profile import Profile

MAX_USER = 255
"""Longest name of a user, in characters."""

NAMELESS = "unknown"
"""The name for a token without one of the claims that name the user, as in RabbitMQ."""


class TokenUser(User):
    """The user of a token, who is not one of the broker's users; `expires_at` is in seconds since 1970.

    `lifetime` is the time in seconds from the check of the token until then.
    """

    is_internal = False

    def __init__(
        self, claims: Mapping[str, Any], settings: BrokerTokens, *, expires_at: float, now: float, profile: Profile
    ) -> None:
        """Raise `ValueError` for a name or scopes that are not acceptable."""
        scopes = scopes_of(claims, settings)
        super().__init__(_name(claims, settings), "", tags=tags_of(scopes))
        self.profile = profile
        self.expires_at = expires_at
        self.lifetime = expires_at - now
        self._claims = claims
        self._scopes = scopes
        self._grants: dict[str, list[Grant]] = {}

    @property
    def session_owner(self) -> Hashable:
        """Owner of named sessions, which is never a user of the broker that has the same name.

        Tokens without a name have nothing else in common, so that each login owns its sessions alone.
        """
        return self if self.name == NAMELESS else ("token", self.name)

    def renew(self, user: User) -> None:
        """Take over the tags and permissions of a later token; `LoginRefused` for a token of another user."""
        if not isinstance(user, TokenUser) or user.name != self.name:
            raise LoginRefused(f"not allowed to change username '{self.name}' on refreshed token")
        self.tags, self.expires_at, self.lifetime = user.tags, user.expires_at, user.lifetime
        self._claims, self._scopes = user._claims, user._scopes
        self._grants.clear()
        self._verdicts.clear()
        self.generation += 1

    def may_enter(self, vhost: str) -> bool:
        return any(matches(each.vhost, vhost) for each in self._grants_in(vhost))

    def permit(self, vhost: str, permission: Permission | None) -> None:
        """Ignore the permission: those of the token count."""

    def permit_topic(self, vhost: str, exchange: str, permission: TopicPermission | None) -> None:
        """Ignore the permission: those of the token count."""

    def may_use_topic(self, vhost: str, operation: str, exchange: str, routing_key: str) -> bool:
        """Whether a scope permits the routing key; as in RabbitMQ, one without a routing key permits none."""
        return any(
            each.operation == operation
            and each.routing_key is not None
            and matches(each.vhost, vhost)
            and matches(each.name, exchange)
            and matches(each.routing_key, routing_key)
            for each in self._grants_in(vhost)
        )

    def check_topic(self, vhost: str, operation: str, exchange: str, routing_key: str) -> None:
        if not self.may_use_topic(vhost, operation, exchange, routing_key):
            raise self._topic_refused(vhost, operation, exchange, routing_key)

    def _is_permitted(self, vhost: str, operation: str, name: str) -> bool:
        return any(
            each.operation == operation and matches(each.vhost, vhost) and matches(each.name, name)
            for each in self._grants_in(vhost)
        )

    def _grants_in(self, vhost: str) -> list[Grant]:
        found = self._grants.get(vhost)
        if found is None:
            found = self._grants[vhost] = list(grants_of(self._scopes, self._claims, vhost))
        return found


def _name(claims: Mapping[str, Any], settings: BrokerTokens) -> str:
    named = (claims.get(each) for each in settings.preferred_username_claims)
    name = next((each for each in named if isinstance(each, str)), NAMELESS)
    if len(name) > MAX_USER or not name.isprintable():
        raise ValueError(f"its user is not a name of at most {MAX_USER} characters")
    return name
