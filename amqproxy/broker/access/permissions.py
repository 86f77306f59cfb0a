"""What a user may do: patterns of names, for each virtual host, and of routing keys for topic exchanges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from amqproxy.broker.name_pattern import name_pattern

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
