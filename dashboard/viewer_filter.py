"""Viewers' filters: CEL expressions as in rules, with limits on the cost of evaluating them, or plain words.

Rules are written by a proxy's operator, but filters by any viewer, and they run in the process that serves all
viewers. The CEL library cannot be interrupted, so operations that are slow on a large body or a long list are counted
beforehand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from math import prod

from amqproxy.dashboard.word_filter import WordFilter, words_of
from amqproxy.rules.matching.expressions import MACROS, TOKEN
from amqproxy.rules.matching.filters import Filter, compiled
from amqproxy.rules.matching.tokens import TextError, Token, tokens_of
from amqproxy.rules.matching.watched_filter import WatchedFilter

MOST = {
    "sum": (16, "sums"),  # each concatenation copies the text
    "look": (16, "calls that look at a whole text"),
    "pattern": (4, "patterns"),
    "macro": (2, "macros"),
}
"""Limits on operations that scan a whole text or a whole list, with their names in errors."""

MAX_OPERATORS = 16
"""Maximum number of operators beside a macro, since each is evaluated for every list entry."""

MAX_PATTERN = 400
"""Limit on the weight of a pattern: its characters times its numeric repetition counts."""

_KINDS = {
    **dict.fromkeys(MACROS, "macro"),
    **dict.fromkeys(("contains", "string", "bytes", "in"), "look"),
    "matches": "pattern",
    "+": "sum",
}
_OPERATORS = frozenset("=!<>&|+-*/%?")
_REPEATED = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d*)\s*)?\}", re.ASCII)


def viewer_filter(expression: str, warn: Callable[[str], object] | None = None) -> Filter:
    """Compile a viewer's filter; `TextError` if it is invalid or could be slow.

    Words that are not CEL are searched for, also before ` && ` and an expression. `warn` receives the reason of the
    first failure on a record.
    """
    try:
        return _expression_filter(expression, warn)
    except TextError:
        words = words_of(expression)
        if words is None:
            raise
    searched, rest = words
    return WordFilter(searched, viewer_filter(rest, warn) if rest else None)


def _expression_filter(expression: str, warn: Callable[[str], object] | None) -> Filter:
    found = compiled(expression)
    tokens = tokens_of(expression, TOKEN)
    counts: Counter[str] = Counter()
    operators: list[Token] = []
    for place, token in enumerate(tokens):
        if token.kind not in ("sign", "word"):
            continue
        if token.text in _OPERATORS:
            operators.append(token)
        kind = _KINDS.get(token.text)
        if kind is None:
            continue
        counts[kind] += 1
        most, what = MOST[kind]
        if counts[kind] > most:
            raise TextError(f"more than {most} {what} could take long", expression, token.place)
        if kind == "pattern" and _weight(tokens[place + 2].text) > MAX_PATTERN:
            raise TextError("this pattern could take long", expression, token.place)
    if counts["macro"] and len(operators) > MAX_OPERATORS:
        place = operators[MAX_OPERATORS].place
        raise TextError(f"more than {MAX_OPERATORS} operators beside a macro could take long", expression, place)
    return found if warn is None else WatchedFilter(expression, warn)


def _weight(pattern: str) -> int:
    """Return the approximate size of a pattern's automaton."""
    repeats = [max(int(least[:9]), int(most[:9] or 0)) for least, most in _REPEATED.findall(pattern)]
    return len(pattern) * prod(max(1, each) for each in repeats)
