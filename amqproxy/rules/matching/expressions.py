"""What a CEL expression reads, and where in its text: which the CEL library does not report.

An expression is looked at before the library compiles it, so that a name which nothing has is refused with a caret
under it, and so that it is known which names to fetch. Only the library evaluates expressions.
"""

from __future__ import annotations

import ast
import re

import msgspec

from amqproxy.rules.matching.attributes import GROUPS, NAMES, Attribute, AttributeKind
from amqproxy.rules.matching.tokens import TextError, Token, tokens_of
from amqproxy.rules.suggestions import did_you_mean

MAX_LENGTH = 4096
"""Characters of an expression."""

MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})
"""What goes over lists and tables, binding a name as it does."""

FUNCTIONS = MACROS | {
    *("has", "size", "contains", "startsWith", "endsWith", "matches"),
    *("int", "uint", "double", "string", "bytes", "type", "dyn", "timestamp", "duration"),
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
}
"""The functions that the library has."""

CONVERSIONS = frozenset({"int", "uint", "double", "timestamp", "duration"})
"""The functions that not every text is right for."""

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
    """A name that is read, and with which keys, where these are written out: client.properties, ("product",).

    `is_guarded`: it stands in a `has(…)`.
    """

    name: Attribute
    keys: tuple[str, ...]
    is_guarded: bool


class ExaminedExpression(msgspec.Struct):
    """What was found in an expression: what it reads, and the literals, with their places, that `matches` is given.

    `conversions` are the functions that make something of a literal, each with that.
    """

    reads: list[AttributeRead]
    patterns: list[Token]
    conversions: list[tuple[Token, Token]]


def check_length(text: str) -> None:
    """`TextError` beyond `MAX_LENGTH`: the library's time to parse grows faster than the text."""
    if len(text) > MAX_LENGTH:
        raise TextError(f"an expression of {len(text)} characters; {MAX_LENGTH} is the most", text, MAX_LENGTH)


def examined(text: str) -> ExaminedExpression:
    """What an expression reads; `TextError` for a name or a function that nothing has, and for what could take
    for ever."""
    check_length(text)
    tokens = tokens_of(text, TOKEN)
    for token in tokens:
        if token.kind == "sign" and token.text in "\"'":
            raise TextError("this text does not end", text, token.place)
    found = ExaminedExpression([], [], [])
    _examine(text, tokens, found)
    return found


def _examine(text: str, tokens: list[Token], found: ExaminedExpression) -> None:
    opened: list[str] = []
    """For each bracket that is open, the name that a macro binds within it, "has" there, or nothing."""
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
                    raise TextError("one macro within another could take for ever", text, token.place)
                opened[-1] = tokens[at].text
                bound.add(opened[-1])
                at += 1
        elif tokens[at - 2].text == ".":
            continue  # a key of what has no name, as in f(x).y
        elif token.text not in bound:
            path, at = path_at(tokens, at - 1)
            found.reads.append(_read(text, path, token, tokens[at], is_guarded="has" in opened))


def _check_call(text: str, tokens: list[Token], at: int) -> None:
    """Is it a function? And is what it matches known now?"""
    token = tokens[at]
    if token.text not in FUNCTIONS:
        raise TextError(f"there is no function `{token.text}`{did_you_mean(token.text, FUNCTIONS)}", text, token.place)
    if token.text == "matches":
        pattern = tokens[at + 2]
        if tokens[at - 1].text != "." or pattern.kind != "string" or tokens[at + 3].text != ")":
            raise TextError("`matches` wants its pattern written out: text.matches('…')", text, token.place)


def path_at(tokens: list[Token], at: int) -> tuple[list[str], int]:
    """The words of a name and the keys that follow it, and the place behind them."""
    path = [tokens[at].text]
    at += 1
    while True:
        following = tokens[at + 1 : at + 3]
        kinds = [each.kind for each in following]
        if tokens[at].text == "." and kinds == ["word", "sign"] and following[1].text == "(":
            return path, at  # a function
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
    """The value of a plain string literal; None if only CEL itself can decode it."""
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
