"""Filters of viewers: expressions as rules have them, within bounds on what evaluating one may take.

An operator writes the rules of a proxy; a filter is of any viewer, and is evaluated where all viewers are served. The
library cannot be interrupted: so what makes an expression slow on a large body or a long list is counted beforehand.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod

from amqproxy.rules.matching.expressions import MACROS, TOKEN
from amqproxy.rules.matching.filters import Filter, compiled
from amqproxy.rules.matching.tokens import TextError, Token, tokens_of

MOST = {
    "sum": (16, "sums"),  # texts that are joined are copied with each
    "look": (16, "calls that look at a whole text"),
    "pattern": (4, "patterns"),
    "macro": (2, "macros"),
}
"""How many there may be of what looks at a whole text, or a whole list."""

MAX_OPERATORS = 16
"""Operators of an expression with a macro: each is evaluated for each entry of a list."""

MAX_PATTERN = 400
"""Characters of a pattern, times how often each may be repeated in it by number."""

_KINDS = {
    **dict.fromkeys(MACROS, "macro"),
    **dict.fromkeys(("contains", "string", "bytes", "in"), "look"),
    "matches": "pattern",
    "+": "sum",
}
_OPERATORS = frozenset("=!<>&|+-*/%?")
_REPEATED = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d*)\s*)?\}", re.ASCII)


def viewer_filter(expression: str) -> Filter:
    """The filter that an expression describes. `TextError` where it is wrong, or could take long."""
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
    return found


def _weight(pattern: str) -> int:
    """How large an automaton a pattern needs, about."""
    repeats = [max(int(least[:9]), int(most[:9] or 0)) for least, most in _REPEATED.findall(pattern)]
    return len(pattern) * prod(max(1, each) for each in repeats)
