r"""Operators' regular expressions in permissions, policies and lists, matched with names that clients choose.

RabbitMQ uses PCRE, which can take exponential time; RE2, used here, takes time linear in the name. RE2 has no
lookahead, but many configurations contain `^(?!amq\.).*`: this module implements lookahead at the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from amqproxy.rules.matching.patterns import compiled_expression, regular_expression, sound

MOST_CHARACTERS = 256
"""Maximum length of a pattern that any user may send: 240 characters of `\\pL` take 12 ms until RE2 rejects them."""

_MEMORY = 256 * 1024
"""Memory limit of such a pattern in bytes: with 8 MiB, RE2 compiles `[\\pL\\pN]{50}` in 42 ms; here it rejects it."""

_BEGINNING = re.compile(r"\\A|\^")


class NamePattern:
    """A pattern that fits a name if `expression` is found in it and each lookahead of `ahead` holds at its beginning.

    The flag of each lookahead says whether it must match (`(?=`) or must not (`(?!`).
    """

    __slots__ = ("ahead", "expression", "pattern")

    def __init__(self, pattern: str, expression: Any, ahead: tuple[tuple[Any, bool], ...]) -> None:
        self.pattern = pattern
        self.expression = expression
        self.ahead = ahead

    def fits(self, name: str) -> bool:
        """Whether the pattern is found anywhere in a name."""
        text = sound(name)
        if any((each.match(text) is None) is is_wanted for each, is_wanted in self.ahead):
            return False
        return self.expression.search(text) is not None


@lru_cache(1024)
def name_pattern(pattern: str, *, ignores_case: bool = False) -> NamePattern:
    """Return the compiled pattern; raise `ValueError` for an invalid regular expression or one that RE2 rejects."""
    return _compiled(pattern, partial(regular_expression, ignores_case=ignores_case))


def bounded_name_pattern(pattern: str, *, ignores_case: bool = False) -> NamePattern:
    """Return the compiled pattern of any user, which takes little time and memory, and no place in a shared cache.

    `ValueError` also for one of more than `MOST_CHARACTERS`.
    """
    if len(pattern) > MOST_CHARACTERS:
        raise ValueError(f"a pattern of {len(pattern)} characters: {MOST_CHARACTERS} are the most")
    return _compiled(pattern, partial(compiled_expression, ignores_case=ignores_case, memory=_MEMORY))


def _compiled(pattern: str, compiled: Callable[[str], Any]) -> NamePattern:
    begins = _BEGINNING.match(pattern)
    if begins is None:
        return NamePattern(pattern, compiled(pattern), ())
    rest = pattern[begins.end() :]
    ahead = []
    while rest.startswith(("(?!", "(?=")) and (end := _end_of_group(rest)):
        ahead.append((compiled(f"(?:{rest[3 : end - 1]})"), rest[2] == "="))
        rest = rest[end:]
    if ahead and _has_alternatives(rest):
        raise ValueError(f"`{pattern}` has alternatives to what it looks ahead for: put them in parentheses")
    return NamePattern(pattern, compiled(begins[0] + rest if ahead else pattern), tuple(ahead))


def _end_of_group(pattern: str) -> int:
    """Return the end offset of the group at the start of a pattern; 0 if the group is not closed."""
    return next((place + 1 for place, depth, char in _walk(pattern) if char == ")" and not depth), 0)


def _has_alternatives(pattern: str) -> bool:
    return any(char == "|" and not depth for _, depth, char in _walk(pattern))


def _walk(pattern: str) -> list[tuple[int, int, str]]:
    """Return offset, group depth after it, and character of every unescaped character outside character classes."""
    found = []
    depth = place = 0
    in_class = False
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            place += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
            if pattern[place + 1 : place + 2] == "^":
                place += 1
            if pattern[place + 1 : place + 2] == "]":
                place += 1
        else:
            depth += (char == "(") - (char == ")")
            found.append((place, depth, char))
        place += 1
    return found
