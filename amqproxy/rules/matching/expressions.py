"""Names that a CEL expression reads, with their places in the text, which the CEL library does not report.

An expression is examined before the library compiles it, so that an unknown name is refused with a caret under it, and
only the names that it reads are fetched. Only the library evaluates expressions.
"""

from __future__ import annotations

import ast
import re

import msgspec

from amqproxy.rules.matching.attributes import GROUPS, NAMES, Attribute, AttributeKind
from amqproxy.rules.matching.tokens import TextError, Token, tokens_of
from amqproxy.rules.suggestions import did_you_mean

MAX_LENGTH = 4096
"""Maximum length of an expression, in characters."""

MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})
"""Macros over lists and tables, which bind a name to each element."""

FUNCTIONS = MACROS | {
    *("has", "size", "contains", "startsWith", "endsWith", "matches"),
    *("int", "uint", "double", "string", "bytes", "type", "dyn", "timestamp", "duration"),
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
}
"""Functions of the CEL library."""

CONVERSIONS = frozenset({"int", "uint", "double", "timestamp", "duration"})
"""Functions that fail on some texts."""

_WORDS = frozenset({"true", "false", "null", "in"})
TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
      | (?P<string>[rRbB]{0,2}(?:
            \"\"\"(?:\\.|[^\\])*?\"\"\" | '''(?:\\.|[^\\])*?''' | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'))
      | (?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]?)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


class AttributeRead(msgspec.Struct, frozen=True):
    """An attribute that an expression reads, with its literal keys: client.properties, ("product",).

    `is_guarded` if it is in a `has(…)`.
    """

    name: Attribute
    keys: tuple[str, ...]
    is_guarded: bool


class ExaminedExpression(msgspec.Struct):
    """Attributes and literals found in an expression: the attribute reads, and the patterns of `matches` with their
    places.

    `conversions` are the calls that convert a literal, with their literals.
    """

    reads: list[AttributeRead]
    patterns: list[Token]
    conversions: list[tuple[Token, Token]]


def check_length(text: str) -> None:
    """Raise `TextError` beyond `MAX_LENGTH`: the library's parse time grows faster than the text."""
    if len(text) > MAX_LENGTH:
        raise TextError(f"the expression has {len(text)} characters, the limit is {MAX_LENGTH}", text, MAX_LENGTH)


def examined(text: str) -> ExaminedExpression:
    """Return the names that an expression reads.

    Raise `TextError` for an unknown name or function, and for an expression that could take very long.
    """
    check_length(text)
    tokens = tokens_of(text, TOKEN)
    for token in tokens:
        if token.kind == "sign" and token.text in "\"'":
            raise TextError("this text is not closed", text, token.place)
    found = ExaminedExpression([], [], [])
    _examine(text, tokens, found)
    return found


def _examine(text: str, tokens: list[Token], found: ExaminedExpression) -> None:
    opened: list[str] = []
    """For each open bracket, the name that a macro binds in it, "has", or nothing."""
    bound: set[str] = set()
    at = 0
    while tokens[at].kind != "end":
        token, following = tokens[at], tokens[at + 1]
        at += 1
        if token.text in "([{" and token.kind == "sign":
            opened.append("")
        elif token.text in ")]}" and token.kind == "sign" and opened:
            bound.discard(opened.pop())
        elif token.kind != "word" or token.text in _WORDS:
            continue
        elif following.text == "(":
            _check_call(text, tokens, at - 1)
            if token.text == "matches":
                found.patterns.append(tokens[at + 1])
            elif token.text in CONVERSIONS and tokens[at + 1].kind == "string" and tokens[at + 2].text == ")":
                found.conversions.append((token, tokens[at + 1]))
            opened.append("has" if token.text == "has" else "")
            at += 1
            if token.text in MACROS and tokens[at].kind == "word":
                if bound:
                    raise TextError("a macro inside a macro could take too long", text, token.place)
                opened[-1] = tokens[at].text
                bound.add(opened[-1])
                at += 1
        elif tokens[at - 2].text == ".":
            continue  # a key of a value without a name, as in f(x).y
        elif token.text not in bound:
            path, at = path_at(tokens, at - 1)
            found.reads.append(_read(text, path, token, tokens[at], is_guarded="has" in opened))


def _check_call(text: str, tokens: list[Token], at: int) -> None:
    """Check that a function exists, and that the pattern of `matches` is a literal."""
    token = tokens[at]
    if token.text not in FUNCTIONS:
        raise TextError(f"there is no function `{token.text}`{did_you_mean(token.text, FUNCTIONS)}", text, token.place)
    if token.text == "matches":
        pattern = tokens[at + 2]
        if tokens[at - 1].text != "." or pattern.kind != "string" or tokens[at + 3].text != ")":
            raise TextError("`matches` wants its pattern written out: text.matches('…')", text, token.place)


def path_at(tokens: list[Token], at: int) -> tuple[list[str], int]:
    """Return the words of a name with the keys that follow it, and the index after them."""
    path = [tokens[at].text]
    at += 1
    while True:
        following = tokens[at + 1 : at + 3]
        kinds = [each.kind for each in following]
        if tokens[at].text == "." and kinds == ["word", "sign"] and following[1].text == "(":
            return path, at  # a function call
        if tokens[at].text == "." and kinds[:1] == ["word"]:
            path.append(following[0].text)
            at += 2
        elif tokens[at].text == "[" and kinds == ["string", "sign"] and following[1].text == "]":
            key = _literal(following[0].text)
            if key is None:
                return path, at
            path.append(key)
            at += 3
        else:
            return path, at


def _literal(text: str) -> str | None:
    """Return the value of a plain string literal; `None` if only CEL can decode it."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None


def _read(text: str, path: list[str], token: Token, following: Token, *, is_guarded: bool) -> AttributeRead:
    first = path[0]
    if first in NAMES:
        return _checked(text, AttributeRead(NAMES[first], tuple(path[1:]), is_guarded), token)
    if first not in GROUPS:
        raise TextError(f"there is no `{first}`{did_you_mean(first, [*NAMES, *GROUPS])}", text, token.place)
    members = [name.partition(".")[2] for name in NAMES if name.startswith(f"{first}.")]
    if len(path) == 1:
        place = following.place if following.text == "[" else token.place
        raise TextError(f"name one of `{first}`: {', '.join(members)}", text, place)
    found = NAMES.get(".".join(path[:2]))
    if found is None:
        place = text.find(path[1], token.place + len(first))
        raise TextError(f"`{first}` has no `{path[1]}`{did_you_mean(path[1], members)}", text, place)
    return _checked(text, AttributeRead(found, tuple(path[2:]), is_guarded), token)


def _checked(text: str, read: AttributeRead, token: Token) -> AttributeRead:
    if read.keys and read.name.kind not in (AttributeKind.TABLE, AttributeKind.ANYTHING):
        raise TextError(f"`{read.name.path}` is {read.name.kind}, and has no `{read.keys[0]}`", text, token.place)
    return read
