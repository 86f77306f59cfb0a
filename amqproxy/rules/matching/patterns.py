"""Text patterns: globs, regular expressions, topic patterns and exact texts.

    orders.*            a glob: `*` is any run of characters, `?` any one; all others are literal
    regex:o[a-z]+       a regular expression that the whole text must match, line breaks included, in RE2's syntax
    topic:orders.*.#    a topic exchange pattern: `*` is one word, `#` any number
    is:orders.*         exactly this text
    !…                  any of these, negated

A list matches a text that matches any of its patterns, and none of the negated ones. Patterns are case-sensitive.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Patterns = str | tuple[str, ...]
"""One pattern, or several."""

Predicate = Callable[[str], bool]

_MEMORY = 8 << 20
"""Memory limit of a regular expression while it runs, in bytes."""


def predicate(patterns: Patterns) -> Predicate:
    """Return a test whether a text matches; raise `ValueError` for an invalid pattern."""
    if isinstance(patterns, str):
        return _one(patterns)
    if not patterns:
        raise ValueError("the list is empty: leave it out, or name a pattern")
    wanted = [_one(each) for each in patterns if not each.startswith("!")]
    unwanted = [_one(each[1:]) for each in patterns if each.startswith("!")]

    def holds(text: str) -> bool:
        return (not wanted or any(each(text) for each in wanted)) and not any(each(text) for each in unwanted)

    names = exact(patterns)
    return names.__contains__ if names is not None else holds


def exact(patterns: Patterns) -> frozenset[str] | None:
    """Return the texts that can match if all patterns are exact; otherwise `None`."""
    several = (patterns,) if isinstance(patterns, str) else patterns
    words = [_word(each) for each in several]
    return None if None in words else frozenset(word for word in words if word is not None)


def takes_all(patterns: Patterns) -> bool:
    """Whether the patterns match every text."""
    several = (patterns,) if isinstance(patterns, str) else patterns
    return bool(_EVERYTHING & {*several}) and not any(each.startswith("!") for each in several)


_EVERYTHING = {"*", "topic:#", "regex:.*"}


def _word(pattern: str) -> str | None:
    if pattern.startswith("is:"):
        return pattern[3:]
    if pattern.startswith(("!", "regex:", "topic:")) or "*" in pattern or "?" in pattern:
        return None
    return pattern


def _one(pattern: str) -> Predicate:
    if pattern.startswith("!"):
        return _negated(_one(pattern[1:]))
    word = _word(pattern)
    if word is not None:
        return word.__eq__
    kind, _, rest = pattern.partition(":")
    if kind == "regex":
        return _whole(whole_expression(rest))
    if kind == "topic":
        return topic(rest)
    return glob(pattern)


def _negated(positive: Predicate) -> Predicate:
    return lambda text: not positive(text)


def glob(pattern: str) -> Predicate:
    """Return a test for a glob: `*` stands for any run of characters, and `?` for any one."""
    head, star, rest = pattern.partition("*")
    if star and not rest and "?" not in head:
        return lambda text: text.startswith(head)
    if pattern[:1] == "*" and not set("*?") & set(pattern[1:]):
        tail = pattern[1:]
        return lambda text: text.endswith(tail)
    match = re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match
    return lambda text: match(text) is not None


def whole_expression(pattern: str) -> Any:
    """Compile a `regex:` pattern; the dot matches line breaks too, so that no name evades it by containing one."""
    return regular_expression(pattern, dot_takes_all=True)


@lru_cache(maxsize=1024)
def regular_expression(pattern: str, *, dot_takes_all: bool = False, ignores_case: bool = False) -> Any:
    """Compile an expression, with the methods of Python's `re`; matching takes time linear in the text.

    Raise `ValueError` if it is invalid. RE2 has no backreferences and no lookaround. Texts must be valid UTF-8: see
    `sound`.
    """
    return compiled_expression(pattern, dot_takes_all=dot_takes_all, ignores_case=ignores_case)


def compiled_expression(
    pattern: str, *, dot_takes_all: bool = False, ignores_case: bool = False, memory: int = _MEMORY
) -> Any:
    """Compile an expression like `regular_expression`, without a cache, and within `memory` bytes."""
    import re2

    options = re2.Options()
    options.dot_nl = dot_takes_all
    options.case_sensitive = not ignores_case
    options.log_errors = False
    options.max_mem = memory
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else error.args[0]
        raise ValueError(f"`{pattern}` is not a regular expression: {why}") from None


def sound(text: str) -> str:
    """Return a peer's text as valid UTF-8, with U+FFFD for invalid bytes."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _whole(expression: Any) -> Predicate:
    match = expression.fullmatch
    return lambda text: match(sound(text)) is not None


def topic(pattern: str) -> Predicate:
    """Return a test for routing keys that match a topic binding key, as RabbitMQ does (section 3.1.3.3)."""
    words = pattern.split(".") if pattern else []
    count = len(words)

    def reached(places: set[int]) -> set[int]:
        """Return the positions, and those after each `#` that matches zero words."""
        found = set()
        for place in places:
            found.add(place)
            while place < count and words[place] == "#":
                place += 1
                found.add(place)
        return found

    start = reached({0})

    def holds(text: str) -> bool:
        places = start
        for word in text.split(".") if text else ():
            following = set()
            for place in places:
                if place < count:
                    expected = words[place]
                    if expected == "#":
                        following.add(place)
                    elif expected in ("*", word):
                        following.add(place + 1)
            if not following:
                return False
            places = reached(following)
        return count in places

    return holds
