"""Type checker of expressions, before they are evaluated.

The CEL library reports a comparison of a text with a number only at each evaluation, and the rule would fail on every
command. This checker walks over the tokens of a compiled expression and follows the types of names and literals. It
accepts values of unknown type, such as table entries, and all syntax that it does not understand.
"""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.rules.matching.attributes import NAMES, AttributeKind
from amqproxy.rules.matching.expressions import MACROS, TOKEN, path_at
from amqproxy.rules.matching.tokens import TextError, Token, tokens_of

Type = str | None
"""Type name, a key of `_ARTICLES`; `None` if unknown."""

_KINDS: dict[AttributeKind, Type] = {
    AttributeKind.TEXT: "text",
    AttributeKind.NUMBER: "int",
    AttributeKind.FLAG: "flag",
    AttributeKind.TIME: "time",
    AttributeKind.LIST: "list",
    AttributeKind.TABLE: "table",
    AttributeKind.ANYTHING: None,
}
_ARTICLES = {
    "int": "a whole number",
    "uint": "an unsigned number",
    "double": "a number with a point",
    "text": "a text",
    "flag": "true or false",
    "null": "null",
    "time": "a timestamp",
    "duration": "a duration",
    "list": "a list",
    "table": "a table",
    "bytes": "bytes",
}
_NUMBERS = frozenset({"int", "uint", "double"})
_SIZED = frozenset({"text", "list", "table", "bytes"})
_ORDERED = frozenset({"text", "flag", "time", "duration", "bytes", *_NUMBERS})

_SUMS: dict[tuple[str, str, str], str] = {
    **{("+", each, each): each for each in ("int", "uint", "double", "text", "duration", "list", "bytes")},
    **{("-", each, each): each for each in ("int", "uint", "double", "duration")},
    **{(sign, each, each): each for sign in "*/" for each in ("int", "uint", "double")},
    **{("%", each, each): each for each in ("int", "uint")},
    ("+", "time", "duration"): "time",
    ("-", "time", "duration"): "time",
    ("-", "time", "time"): "duration",
    ("+", "list", "table"): "list",
}
"""Result types of the arithmetic operators that the library supports."""

_RESULTS: dict[str, Type] = {
    **dict.fromkeys(("has", "contains", "startsWith", "endsWith", "matches", "all", "exists", "exists_one"), "flag"),
    "size": "int",
    "int": "int",
    "uint": "uint",
    "double": "double",
    "string": "text",
    "bytes": "bytes",
    "timestamp": "time",
    "duration": "duration",
    "filter": "list",
    "map": "list",
    "type": None,
    "dyn": None,
}
_TAKES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("int", "uint", "double"), frozenset({"text", *_NUMBERS})),
    **dict.fromkeys(("timestamp", "duration"), frozenset({"text"})),
    "size": _SIZED,
}
"""Argument types of the conversion functions."""

_OF_TEXT = frozenset({"contains", "startsWith", "endsWith", "matches"})


def check_types(text: str) -> None:
    """Raise `TextError` if an expression can never be evaluated, or compares values that are never equal."""
    try:
        _Checker(text).check()
    except _NotUnderstood:
        return  # the library may still evaluate it


class _NotUnderstood(Exception):
    """Raised on tokens that the checker does not expect."""


class _Checker:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text, TOKEN)
        self._at = 0
        self._bound: set[str] = set()

    def check(self) -> None:
        self._either()
        if self._token.kind != "end":
            raise _NotUnderstood

    # --- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _sign(self) -> str:
        """Return the next operator, of one or two characters; "" if there is none."""
        token = self._token
        if token.kind != "sign":
            return ""
        following = self._tokens[self._at + 1]
        pair = token.text + following.text
        is_pair = following.kind == "sign" and following.place == token.place + 1
        return pair if is_pair and pair in ("&&", "||", "==", "!=", "<=", ">=") else token.text

    def _take(self, sign: str) -> Token:
        if self._sign() != sign:
            raise _NotUnderstood
        token = self._token
        self._at += len(sign)
        return token

    def _error(self, token: Token, what: str) -> TextError:
        return TextError(what, self._text, token.place)

    # --- from the weakest binding to the strongest

    def _either(self) -> Type:
        start = self._token
        found = self._any(("||",), lambda: self._any(("&&",), self._relation))
        if self._sign() != "?":
            return found
        self._want(start, found, frozenset({"flag"}), "`?` asks of")
        self._take("?")
        one = self._either()
        self._take(":")
        other = self._either()
        return one if one == other else None

    def _any(self, signs: tuple[str, ...], part: Callable[[], Type]) -> Type:
        start = self._token
        found = part()
        while self._sign() in signs:
            sign = self._sign()
            self._want(start, found, frozenset({"flag"}), f"`{sign}` joins")
            self._take(sign)
            start = self._token
            self._want(start, part(), frozenset({"flag"}), f"`{sign}` joins")
            found = "flag"
        return found

    def _want(self, token: Token, found: Type, wanted: frozenset[str], why: str) -> None:
        if found is not None and found not in wanted:
            these = " or ".join(sorted(_ARTICLES[each] for each in wanted))
            raise self._error(token, f"{why} {these}, and this is {_ARTICLES[found]}")

    def _relation(self) -> Type:
        left = self._sum()
        while True:
            sign = "in" if self._token.text == "in" and self._token.kind == "word" else self._sign()
            if sign not in ("==", "!=", "<", "<=", ">", ">=", "in"):
                return left
            token = self._token
            self._at += 1 if sign == "in" else len(sign)
            right = self._sum()
            self._check_relation(token, sign, left, right)
            left = "flag"

    def _check_relation(self, token: Token, sign: str, left: Type, right: Type) -> None:
        if sign == "in":
            self._want(token, right, frozenset({"list", "table"}), "`in` looks into")
            return
        if left is None or right is None:
            return
        are_numbers = left in _NUMBERS and right in _NUMBERS
        is_apart = left != right and not are_numbers
        if sign in ("==", "!="):
            if is_apart and "null" not in (left, right):
                raise self._error(token, f"{_ARTICLES[left]} is never equal to {_ARTICLES[right]}")
        elif is_apart or left not in _ORDERED:
            raise self._error(token, f"`{sign}` cannot compare {_ARTICLES[left]} with {_ARTICLES[right]}")

    def _sum(self) -> Type:
        return self._combined("+-", lambda: self._combined("*/%", self._unary))

    def _combined(self, signs: str, part: Callable[[], Type]) -> Type:
        left = part()
        while (sign := self._sign()) and sign in signs:
            token = self._take(sign)
            right = part()
            if left is not None and right is not None:
                found = _SUMS.get((sign, left, right))
                if found is None:
                    raise self._error(token, f"`{sign}` cannot be between {_ARTICLES[left]} and {_ARTICLES[right]}")
                left = found
            else:
                left = None
        return left

    def _unary(self) -> Type:
        sign = self._sign()
        if sign not in ("!", "-"):
            return self._member()
        token = self._take(sign)
        found = self._unary()
        wanted = frozenset({"flag"}) if sign == "!" else frozenset({"int", "double"})
        self._want(token, found, wanted, f"`{sign}` is for")
        return found

    # --- names, calls and literals

    def _member(self) -> Type:
        found = self._primary()
        while True:
            sign = self._sign()
            if sign == "[":
                self._take("[")
                self._either()
                self._take("]")
                found = None
            elif sign == ".":
                self._take(".")
                word = self._token
                if word.kind != "word":
                    raise _NotUnderstood
                self._at += 1
                found = self._call(word, found, is_method=True) if self._sign() == "(" else None
            else:
                return found

    def _primary(self) -> Type:
        token = self._token
        if token.kind == "string":
            self._at += 1
            return "bytes" if "b" in token.text[:2].lower().split(token.text[-1])[0] else "text"
        if token.kind == "number":
            self._at += 1
            return _type_of_number(token.text.lower())
        if token.kind == "word":
            return self._word(token)
        sign = self._sign()
        if sign == "(":
            self._take("(")
            found = self._either()
            self._take(")")
            return found
        if sign == "[":
            self._entries("[", "]")
            return "list"
        if sign == "{":
            self._entries("{", "}")
            return "table"
        raise _NotUnderstood

    def _entries(self, first: str, last: str) -> None:
        """Parse the entries of a list, table or call, separated by commas and colons."""
        self._take(first)
        while self._sign() != last:
            self._either()
            if self._sign() in (",", ":"):
                self._at += 1
        self._take(last)

    def _word(self, token: Token) -> Type:
        if token.text in ("true", "false", "null"):
            self._at += 1
            return "null" if token.text == "null" else "flag"
        following = self._tokens[self._at + 1]
        if following.text == "(" and following.kind == "sign":
            self._at += 1
            return self._call(token, None, is_method=False)
        path, self._at = path_at(self._tokens, self._at)
        if token.text in self._bound:
            return None
        for length in (1, 2):
            name = NAMES.get(".".join(path[:length]))
            if name is not None and len(path) >= length:
                return _KINDS[name.kind] if len(path) == length else None
        return None

    def _call(self, function: Token, target: Type, *, is_method: bool) -> Type:
        name = function.text
        if name in MACROS:
            return self._macro(function, target)
        arguments: list[Type] = [target] if is_method else []
        self._take("(")
        while self._sign() != ")":
            arguments.append(self._either())
            if self._sign() == ",":
                self._at += 1
        self._take(")")
        if name in _OF_TEXT and len(arguments) == 2 and arguments[0] not in (None, "list", "table", "bytes"):
            for argument in arguments:
                self._want(function, argument, frozenset({"text"}), f"`{name}` wants")
        elif name in _TAKES and len(arguments) == 1:
            self._want(function, arguments[0], _TAKES[name], f"`{name}` takes")
        elif name.startswith("get") and arguments:
            self._want(function, arguments[0], frozenset({"time", "duration"}), f"`{name}` is of")
        return "int" if name.startswith("get") else _RESULTS.get(name)

    def _macro(self, function: Token, target: Type) -> Type:
        self._want(function, target, frozenset({"list", "table"}), f"`{function.text}` goes over")
        self._take("(")
        variable = self._token.text
        self._at += 1
        self._bound.add(variable)
        while self._sign() == ",":
            self._take(",")
            self._either()
        self._take(")")
        self._bound.discard(variable)
        return _RESULTS.get(function.text)


def _type_of_number(text: str) -> Type:
    if text.startswith("0x"):
        return "uint" if text.endswith("u") else "int"
    if text.endswith("u"):
        return "uint"
    return "double" if "." in text or "e" in text else "int"
