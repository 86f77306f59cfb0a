"""Permissions of a user: patterns of names per virtual host, and of routing keys for topic exchanges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from amqproxy.rules.matching.name_pattern import name_pattern

CONFIGURE, WRITE, READ = "configure", "write", "read"


class Permission(NamedTuple):
    """Patterns of the names that a user may configure, write to and read from; an empty one fits no name."""

    configure: str
    write: str
    read: str


class TopicPermission(NamedTuple):
    """Patterns of routing keys; {username} and {vhost} are replaced by the user's name and the virtual host."""

    write: str
    read: str


def check_patterns(patterns: Iterable[str]) -> None:
    """Raise `ValueError` for a pattern that is not a valid regular expression."""
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ValueError(f"{pattern!r} is no regular expression")
        name_pattern(pattern)


def fits(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text; an empty pattern fits only an empty text."""
    return name_pattern(pattern or "^$").fits(text)
