"""A user that an OAuth 2 token names, with the tags and the permissions of its scopes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.token_scopes import (
    Grant,
    Pattern,
    encoded,
    fits,
    grants_of,
    is_of_vhost,
    scopes_of,
    tags_of,
)
from amqproxy.broker.access.users import MAX_VERDICTS, LoginRefused, User
from amqproxy.configuration.token_config import BrokerTokens
from amqproxy.rabbitmq.profile import Profile

MAX_USER = 255
"""Longest name of a user, in characters."""

MOST_VHOSTS = 16
"""Maximum number of virtual hosts whose scopes with `{vhost}` are remembered."""

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
        self._general: list[Grant] = []
        """Grants of the scopes without `{vhost}`."""
        self._entrances: set[Pattern] = set()
        """Patterns of virtual hosts of these grants."""
        self._scopes_of_vhosts: list[str] = []
        self._grants: dict[str, list[Grant]] = {}
        """Grants of the scopes with `{vhost}`, by virtual host."""
        self._topic_verdicts: dict[tuple[str, str, str, str], bool] = {}
        self._entered: tuple[tuple[str, ...], list[str]] = (), []
        self._take_scopes()

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
        self._verdicts.clear()
        self._take_scopes()
        self.generation += 1

    def _take_scopes(self) -> None:
        """Parse the scopes, and forget what the former ones permitted."""
        self._general = list(grants_of((each for each in self._scopes if not is_of_vhost(each)), self._claims, ""))
        self._entrances = {each.vhost for each in self._general}
        self._scopes_of_vhosts = [each for each in self._scopes if is_of_vhost(each)]
        self._grants.clear()
        self._topic_verdicts.clear()
        self._entered = (), []

    def may_enter(self, vhost: str) -> bool:
        subject = encoded(vhost)
        return any(fits(each, subject) for each in self._entrances) or any(
            fits(each.vhost, subject) for each in self._expanded(vhost)
        )

    def entered(self, vhosts: tuple[str, ...]) -> list[str] | None:
        """Return which of these virtual hosts the user may enter, if that is remembered."""
        return self._entered[1] if self._entered[0] == vhosts else None

    def remember_entered(self, vhosts: tuple[str, ...], entered: list[str]) -> None:
        """Remember which of these virtual hosts the user may enter."""
        self._entered = vhosts, entered

    def permit(self, vhost: str, permission: Permission | None) -> None:
        """Ignore the permission: those of the token count."""

    def permit_topic(self, vhost: str, exchange: str, permission: TopicPermission | None) -> None:
        """Ignore the permission: those of the token count."""

    def may_use_topic(self, vhost: str, operation: str, exchange: str, routing_key: str) -> bool:
        """Whether a scope permits the routing key; as in RabbitMQ, one without a routing key permits none."""
        key = vhost, operation, exchange, routing_key
        verdict = self._topic_verdicts.get(key)
        if verdict is None:
            names = encoded(exchange), encoded(routing_key)
            verdict = any(
                each.routing_key is not None and fits(each.name, names[0]) and fits(each.routing_key, names[1])
                for each in self._grants_in(vhost, operation)
            )
            if len(self._topic_verdicts) >= MAX_VERDICTS:
                self._topic_verdicts.clear()
            self._topic_verdicts[key] = verdict
        return verdict

    def check_topic(self, vhost: str, operation: str, exchange: str, routing_key: str) -> None:
        if not self.may_use_topic(vhost, operation, exchange, routing_key):
            raise self._topic_refused(vhost, operation, exchange, routing_key)

    def _is_permitted(self, vhost: str, operation: str, name: str) -> bool:
        subject = encoded(name)
        return any(fits(each.name, subject) for each in self._grants_in(vhost, operation))

    def _grants_in(self, vhost: str, operation: str) -> Iterator[Grant]:
        """Yield the grants of an operation in a virtual host."""
        found = self._grants.get(vhost)
        if found is None:
            if len(self._grants) >= MOST_VHOSTS:
                self._grants.clear()
            found = self._grants[vhost] = list(self._expanded(vhost))
        subject = encoded(vhost)
        for each in (*self._general, *found):
            if each.operation == operation and fits(each.vhost, subject):
                yield each

    def _expanded(self, vhost: str) -> Iterator[Grant]:
        return grants_of(self._scopes_of_vhosts, self._claims, vhost)


def _name(claims: Mapping[str, Any], settings: BrokerTokens) -> str:
    named = (claims.get(each) for each in settings.preferred_username_claims)
    name = next((each for each in named if isinstance(each, str)), NAMELESS)
    if len(name) > MAX_USER or not name.isprintable():
        raise ValueError(f"its user is not a name of at most {MAX_USER} characters")
    return name
