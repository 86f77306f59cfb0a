"""What a user may do: patterns of names, for each virtual host, and of routing keys for topic exchanges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from amqproxy.amqp091.errors import AccessRefused
from amqproxy.broker.name_pattern import name_pattern

if TYPE_CHECKING:
    from amqproxy.broker.access.users import User
    from amqproxy.broker.exchanges.exchange import Exchange

CONFIGURE, WRITE, READ = "configure", "write", "read"


class Permission(NamedTuple):
    """Patterns of the names that a user may configure, write to and read from; an empty one fits no name."""

    configure: str
    write: str
    read: str


class TopicPermission(NamedTuple):
    """Patterns of routing keys; {username} and {vhost} stand for the user's own."""

    write: str
    read: str


def check_patterns(patterns: Iterable[str]) -> None:
    """`ValueError` where one is no regular expression."""
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ValueError(f"{pattern!r} is no regular expression")
        name_pattern(pattern)


def fits(pattern: str, text: str) -> bool:
    """Does the pattern fit anywhere in the text?"""
    return name_pattern(pattern or "^$").fits(text)


def check(user: User, vhost: str, operation: str, kind: str, name: str) -> None:
    """403 unless the user may do it; `operation` is CONFIGURE, WRITE or READ, `kind` "queue" or "exchange"."""
    if kind == "exchange" and not name:
        name = "amq.default"
    if not user.may(vhost, operation, name):
        raise AccessRefused(f"access to {kind} '{name}' in vhost '{vhost}' refused for user '{user.name}'")


def check_topic(user: User, vhost: str, operation: str, exchange: Exchange, routing_key: str) -> None:
    """403 unless the user may use this key; only topic exchanges ask."""
    if not user.topic_permissions or exchange.type != "topic":
        return
    if not user.may_use_topic(vhost, operation, exchange.name, routing_key):
        raise AccessRefused(
            f"access to topic '{routing_key}' in exchange '{exchange.name}' in vhost '{vhost}' "
            f"refused for user '{user.name}'"
        )
