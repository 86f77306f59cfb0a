"""JMS selectors: which messages a consumer wants, by their properties. JMS 1.1, section 3.8.1.

A selector is a conditional expression of SQL-92, with its three values: a comparison with a property that a message
lacks is unknown, and so chooses nothing. Values of different kinds are never equal.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

MOST_CHARACTERS = 4096
MOST_DEPTH = 50
MOST_PATTERN = 255
"""Limits on the characters of a selector, the depth of its parentheses, and the characters of a LIKE pattern."""

MOST_TEXT = 4096
"""Maximum length of a text that LIKE examines; for a longer one the result is unknown.

The time grows with the lengths of the text and the pattern.
"""

MOST_SOUGHT = 255
"""Maximum number of characters in all LIKE segments of a selector that contain `_` and are searched for in a text.

Each of them may be compared at each character of the text.
"""

_LONGEST = 64
"""Length up to which an integer literal is read at all."""

_LEAST, _MOST = -(2**63), 2**63 - 1
"""Bounds of integers: 64 bits, as in Java, since unbounded ones would take unbounded time."""

_LIKE_COST = 64

Lookup = Callable[[str], Any]
"""Lookup of a property's value by name: a text, a number or a boolean; None if it is absent."""

Node = Callable[[Lookup], Any]
"""Evaluation of a part of a selector; a value of None is unknown."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^']|'')*')
    |(?P<float>\d+\.\d*(?:[eE][+-]?\d+)?[fFdD]?|\.\d+(?:[eE][+-]?\d+)?[fFdD]?|\d+[eE][+-]?\d+[fFdD]?|\d+[fFdD](?![\w$]))
    |(?P<hex>0[xX][0-9a-fA-F]+[lL]?)
    |(?P<integer>\d+[lL]?)
    |(?P<word>[^\W\d][\w$]*|\$[\w$]*)
    |(?P<symbol><>|<=|>=|[-+*/%=<>(),])
    )""",
    re.VERBOSE,
)
_RESERVED = frozenset(("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"))
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class SelectorError(ValueError):
    """A text that is not a valid selector; the message says why."""


class Token(NamedTuple):
    """A part of a selector's text: its kind, the text (a reserved word in capitals), and where it begins."""

    kind: str
    text: str
    place: int


class JmsSelector:
    """A selector parsed from a text; `SelectorError` if the text is invalid.

    `cost` is about how many microseconds it takes to evaluate it on one message.
    """

    __slots__ = ("_matches", "cost", "text")

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise SelectorError(f"more than {MOST_CHARACTERS} characters")
        self.text = text
        tokens = list(_tokens(text))
        self._matches = _Parser(tokens).selector()
        likes = sum(token.text == "LIKE" for token in tokens)
        self.cost = 16 + len(tokens) + _LIKE_COST * likes

    def matches(self, lookup: Lookup) -> bool:
        """Return whether the selector chooses a message with these properties."""
        return self._matches(lookup) is True


def _tokens(text: str) -> Iterator[Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise SelectorError(f"not a selector from character {at + 1} on")
        kind = found.lastgroup or ""
        value, place = found[kind], found.start(kind)
        if kind == "word" and value.upper() in _RESERVED:
            kind, value = "reserved", value.upper()
        yield Token(kind, value, place)
        at = found.end()
    yield Token("end", "", end)


class _Parser:
    """Recursive-descent parser that turns tokens into one function."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._sought = 0

    def selector(self) -> Node:
        """Parse the whole selector."""
        node = self._or()
        if self._next.kind != "end":
            raise self._unexpected()
        return node

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _takes(self, *texts: str) -> str:
        """Consume the next token if it is one of these reserved words or symbols; return it, or an empty text."""
        token = self._next
        if token.kind not in ("reserved", "symbol") or token.text not in texts:
            return ""
        self._at += 1
        return token.text

    def _needs(self, text: str) -> None:
        if not self._takes(text):
            raise self._unexpected()

    def _unexpected(self) -> SelectorError:
        token = self._next
        return SelectorError(f"{token.text or 'its end'} at character {token.place + 1}, which does not belong there")

    def _or(self) -> Node:
        nodes = [self._and()]
        while self._takes("OR"):
            nodes.append(self._and())
        return _any(nodes)

    def _and(self) -> Node:
        nodes = [self._not()]
        while self._takes("AND"):
            nodes.append(self._not())
        return _all(nodes)

    def _not(self) -> Node:
        is_negated = False
        while self._takes("NOT"):
            is_negated = not is_negated
        node = self._comparison()
        return _negation(node) if is_negated else node

    def _comparison(self) -> Node:
        left = self._sum()
        if symbol := self._takes(*_COMPARISONS):
            return _compared(_COMPARISONS[symbol], symbol in ("=", "<>"), left, self._sum())
        if self._takes("IS"):
            is_negated = bool(self._takes("NOT"))
            self._needs("NULL")
            return lambda lookup: (left(lookup) is None) is not is_negated
        is_negated = bool(self._takes("NOT"))
        node: Node | None = None
        if self._takes("BETWEEN"):
            low = self._sum()
            self._needs("AND")
            high = self._sum()
            least = _compared(operator.ge, False, left, low)
            node = _all([least, _compared(operator.le, False, left, high)])
        elif self._takes("LIKE"):
            node = self._like(left)
        elif self._takes("IN"):
            node = self._in(left)
        if node is None:
            if is_negated:
                raise self._unexpected()
            return left
        return _negation(node) if is_negated else node

    def _like(self, left: Node) -> Node:
        pattern = self._text()
        escape = self._text() if self._takes("ESCAPE") else ""
        segments = _segments(pattern, escape)
        self._sought += sum([_length(each) for each in segments[1 : len(segments) - 1] if _is_vague(each)])
        if self._sought > MOST_SOUGHT:
            raise SelectorError(f"LIKE with _ in more than {MOST_SOUGHT} characters between percent signs")

        def node(lookup: Lookup) -> bool | None:
            value = left(lookup)
            if value is None or (isinstance(value, str) and len(value) > MOST_TEXT):
                return None
            return isinstance(value, str) and _is_like(value, segments)

        return node

    def _in(self, left: Node) -> Node:
        self._needs("(")
        texts = {self._text()}
        while self._takes(","):
            texts.add(self._text())
        self._needs(")")

        def node(lookup: Lookup) -> bool | None:
            value = left(lookup)
            return None if value is None else isinstance(value, str) and value in texts

        return node

    def _text(self) -> str:
        token = self._next
        if token.kind != "text":
            raise self._unexpected()
        self._at += 1
        return _unquoted(token.text)

    def _sum(self) -> Node:
        node, others = self._product(), list[Calculation]()
        while symbol := self._takes("+", "-"):
            others.append((operator.add if symbol == "+" else operator.sub, self._product()))
        return _calculated(node, others)

    def _product(self) -> Node:
        node, others = self._signed(), list[Calculation]()
        while symbol := self._takes("*", "/", "%"):
            others.append((_FACTORS[symbol], self._signed()))
        return _calculated(node, others)

    def _signed(self) -> Node:
        is_negative = False
        while symbol := self._takes("+", "-"):
            is_negative ^= symbol == "-"
        node = self._primary()
        return _calculated(lambda lookup: 0, [(operator.sub, node)]) if is_negative else node

    def _primary(self) -> Node:
        token = self._next
        self._at += 1
        value: Any = None
        match token.kind:
            case "text":
                value = _unquoted(token.text)
            case "integer":
                value = _integer(token, 10)
            case "hex":
                value = _integer(token, 16)
            case "float":
                value = float(token.text.rstrip("fFdD"))
            case "word":
                return lambda lookup: lookup(token.text)
            case "reserved" if token.text in ("TRUE", "FALSE"):
                value = token.text == "TRUE"
            case "symbol" if token.text == "(":
                return self._nested()
            case _:
                self._at -= 1
                raise self._unexpected()
        return lambda lookup: value

    def _nested(self) -> Node:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise SelectorError(f"more than {MOST_DEPTH} parentheses in each other")
        node = self._or()
        self._needs(")")
        self._depth -= 1
        return node


def _integer(token: Token, base: int) -> int:
    text = token.text.rstrip("lL")
    value = int(text, base) if len(text) <= _LONGEST else -_LEAST + 1
    if value > -_LEAST:  # even after a minus sign, which is a token by itself
        raise SelectorError(f"{token.text[:_LONGEST]} at character {token.place + 1}, which is more than 64 bits hold")
    return value


def _unquoted(text: str) -> str:
    return text[1 : len(text) - 1].replace("''", "'")


# --- three-valued logic


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _negation(node: Node) -> Node:
    def negation(lookup: Lookup) -> bool | None:
        value = _truth(node(lookup))
        return None if value is None else not value

    return negation


def _all(nodes: list[Node]) -> Node:
    """Return the AND of any number of nodes, without nesting their calls."""

    def all_of(lookup: Lookup) -> bool | None:
        is_unknown = False
        for node in nodes:
            value = _truth(node(lookup))
            if value is False:
                return False
            is_unknown |= value is None
        return None if is_unknown else True

    return all_of if len(nodes) > 1 else nodes[0]


def _any(nodes: list[Node]) -> Node:
    """Return the OR of any number of nodes, without nesting their calls."""

    def any_of(lookup: Lookup) -> bool | None:
        is_unknown = False
        for node in nodes:
            value = _truth(node(lookup))
            if value is True:
                return True
            is_unknown |= value is None
        return None if is_unknown else False

    return any_of if len(nodes) > 1 else nodes[0]


# --- values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _compared(compare: Callable[[Any, Any], bool], is_equality: bool, left: Node, right: Node) -> Node:
    """Compare numbers with numbers, and texts and booleans with their own kind, for equality only."""

    def compared(lookup: Lookup) -> bool | None:
        first, second = left(lookup), right(lookup)
        if first is None or second is None:
            return None
        if _is_number(first) and _is_number(second):
            return compare(first, second)
        return is_equality and type(first) is type(second) and compare(first, second)

    return compared


Calculation = tuple[Callable[[Any, Any], Any], Node]
"""Operator and right operand of one step of a calculation."""


def _calculated(first: Node, others: list[Calculation]) -> Node:
    """Return a node that applies the operators from left to right."""

    def calculated(lookup: Lookup) -> int | float | None:
        value = first(lookup)
        for calculate, node in others:
            operand = node(lookup)
            if not _is_number(value) or not _is_number(operand):
                return None
            try:
                value = calculate(value, operand)
            except (OverflowError, ZeroDivisionError):
                return None
            if type(value) is int and not _LEAST <= value <= _MOST:
                return None
        result: int | float | None = value
        return result

    return calculated if others else first


def _quotient(first: int | float, second: int | float) -> int | float:
    """Return the quotient, for two integers an integer, rounded towards zero."""
    if isinstance(first, float) or isinstance(second, float):
        return first / second
    quotient = abs(first) // abs(second)
    return quotient if (first < 0) == (second < 0) else -quotient


def _remainder(first: int | float, second: int | float) -> int | float:
    """Return the remainder with the sign of the first operand, as in Java; Qpid's selectors have it, JMS has not."""
    if isinstance(first, float) or isinstance(second, float):
        return math.fmod(first, second) if second else math.nan
    return first - second * _quotient(first, second)


_FACTORS: dict[str, Callable[[Any, Any], Any]] = {"*": operator.mul, "/": _quotient, "%": _remainder}

Segment = re.Pattern[str]


def _segments(pattern: str, escape: str) -> list[Segment]:
    """Split a LIKE pattern at its percent signs; a search for a segment takes time in its length and the text's."""
    if len(pattern) > MOST_PATTERN:
        raise SelectorError(f"LIKE with more than {MOST_PATTERN} characters")
    if len(escape) > 1:
        raise SelectorError("ESCAPE with more than one character")
    segments, is_escaped = [""], False
    for character in pattern:
        if is_escaped or character not in ("%", "_", escape):
            segments[len(segments) - 1] += re.escape(character)
            is_escaped = False
        elif character == escape:
            is_escaped = True
        elif character == "%":
            segments.append("")
        else:
            segments[len(segments) - 1] += "."
    if is_escaped:
        raise SelectorError("LIKE with an escape character at the end")
    return [re.compile(each, re.DOTALL) for each in segments]


def _is_like(text: str, segments: list[Segment]) -> bool:
    first, last = segments[0], segments[len(segments) - 1]
    if len(segments) == 1:
        return first.fullmatch(text) is not None
    found = first.match(text)
    if found is None:
        return False
    at = found.end()
    for segment in segments[1 : len(segments) - 1]:
        found = segment.search(text, at)
        if found is None:
            return False
        at = found.end()
    length = len(text) - _length(last)
    return length >= at and last.fullmatch(text, length) is not None


def _is_vague(segment: Segment) -> bool:
    """Return whether the segment matches any character at some place."""
    return "." in re.sub(r"\\.", "", segment.pattern, flags=re.DOTALL)


def _length(segment: Segment) -> int:
    """Return the number of characters that the segment matches."""
    return len(re.sub(r"\\(.)", r"\1", segment.pattern, flags=re.DOTALL))
