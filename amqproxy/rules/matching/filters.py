"""CEL expressions over attributes, for the `when` of rules and for all other filters.

An attribute that a command lacks is null, so that for a publish `queue == "a"` is false and `queue != "a"` is true. An
expression that cannot be evaluated because of a missing attribute does not hold; `has(headers.x)` tests for it. If
evaluation fails for another reason, for example because a client sent a text instead of a number, `FilterFailed` is
raised.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.attributes import NAMES, AttributeKind, AttributeSource, builtin_value
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.expression_types import check_types
from amqproxy.rules.matching.expressions import AttributeRead, ExaminedExpression, check_length, examined
from amqproxy.rules.matching.tokens import TextError

_SPECIMENS: dict[AttributeKind, Any] = {
    AttributeKind.TEXT: "",
    AttributeKind.NUMBER: 0,
    AttributeKind.FLAG: False,
    AttributeKind.TIME: 0.0,
    AttributeKind.LIST: [],
    AttributeKind.TABLE: {},
    AttributeKind.ANYTHING: {},
}

MAX_KNOWN_VALUES = 512
"""Number of value combinations for which an expression's result is cached."""

LookUp = Callable[[str], Any]
"""Returns the value of an attribute path; `None` if there is none."""

_FLEETING = list(AttributeSource)
"""Attribute sources, from the most lasting to the most short-lived."""

_SYNTAX = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)")


_PATTERN = re.compile(r"^(?:error: )?([^'\n]*?)\.? Check function arguments", re.MULTILINE)


class FilterFailed(ValueError):
    """Raised if the evaluation of an expression fails, or its value is not a boolean."""


class NotBoolean(FilterFailed):
    """Raised if the value of an expression is not a boolean."""


class Filter:
    """A compiled expression."""

    __slots__ = ("_known", "_program", "_reads", "_values", "condition", "expression", "names")

    def __init__(self, expression: str) -> None:
        """Raise `TextError`, a `ValueError`, with the error and its place."""
        if not expression.strip():
            raise TextError("the expression is empty", expression, 0)
        found = examined(expression)
        self.expression = expression
        self.names = frozenset([read.name.path for read in found.reads])
        """Attributes that the expression reads."""
        try:
            self._program = _compiled(expression, found)
        except RecursionError:
            raise TextError("too many nested operators", expression, 0) from None
        self._reads = _fetched(found.reads)
        self._try_out()
        self._values = [NAMES[path].value for path in self._reads]
        self._known: dict[tuple[Any, ...], bool] = {}
        sources = [AttributeSource.METHOD, *[NAMES[path].source for path in self.names]]
        self.condition = Condition(
            source=max(sources, key=_FLEETING.index),
            stage=max([NAMES["method"].stage, *[NAMES[path].stage for path in self.names]]),
            reads=self.names,
            holds=self._holds_of(),
        )

    def holds(self, look_up: LookUp) -> bool:
        """Whether the expression holds for the values that `look_up` returns."""
        activation: dict[str, Any] = {}
        is_absent = False
        for path, keys in self._reads.items():
            value, lacks = _value(path, look_up(path), keys)
            is_absent = is_absent or lacks
            group, dot, member = path.partition(".")
            if dot:
                inner = activation.setdefault(group, {})
                if value is not None or not keys.get((), False):
                    inner[member] = value
            else:
                activation[group] = value
        try:
            result = self._program.execute(activation)
        except BaseException as error:
            # The library raises many kinds of exceptions; a panic in it is not an `Exception`.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            if is_absent or isinstance(error, LookupError):
                return False
            raise FilterFailed(str(error).partition(". ")[0]) from None
        if result is True or result is False:
            return bool(result)
        if is_absent:
            return False
        raise NotBoolean(f"evaluates to {_kind_of(result)}, which is neither true nor false")

    def _holds_of(self) -> Callable[[CommandContext], bool]:
        return self._holds_of_names if all(map(_is_name, self.names)) else self._holds_of_seen

    def _try_out(self) -> None:
        """Refuse an expression whose value is never a boolean, for example one that is always a text."""
        try:
            self.holds(lambda path: _SPECIMENS[NAMES[path].kind])
        except NotBoolean as failure:
            raise TextError(str(failure), self.expression, 0) from None
        except FilterFailed:
            pass  # it may not fail on the values of real commands

    def _holds_of_names(self, context: CommandContext) -> bool:
        """Evaluate an expression over a few names that recur, with a cache."""
        values = tuple([value(context) for value in self._values])
        found = self._known.get(values)
        if found is None:
            found = self.holds(dict(zip(self._reads, values, strict=True)).__getitem__)
            if len(self._known) >= MAX_KNOWN_VALUES:
                self._known.clear()
            self._known[values] = found
        return found

    def _holds_of_seen(self, context: CommandContext) -> bool:
        return self.holds(lambda path: NAMES[path].value(context))


def _is_name(path: str) -> bool:
    """Whether the attribute is a short text that many commands share."""
    attribute = NAMES[path]
    is_lasting = attribute.source in (AttributeSource.CLIENT, AttributeSource.METHOD)
    return is_lasting and attribute.kind is AttributeKind.TEXT


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Filter:
    """Return the filter of an expression; equal expressions share one."""
    return Filter(expression)


Keys = dict[tuple[str, ...], bool]
"""Keys by which a table is read, and whether each is read only in `has`; empty if the whole table is read."""


def _fetched(found: list[AttributeRead]) -> dict[str, Keys]:
    """Return the attributes to fetch for an expression, with their keys."""
    fetched: dict[str, Keys] = {}
    for read in found:
        keys = fetched.setdefault(read.name.path, {})
        keys[read.keys] = keys.get(read.keys, False) or read.is_guarded
    return fetched


def _value(path: str, value: Any, keys: Keys) -> tuple[Any, bool]:
    """Return a value converted for the library, with null for each missing key, and whether a key is missing.

    A missing key that `has` tests for is left out instead.
    """
    if NAMES[path].kind is AttributeKind.TIME and value is not None:
        try:
            return datetime.datetime.fromtimestamp(value, datetime.UTC), False
        except (ValueError, OverflowError, OSError):  # captures with a broken clock have such times
            raise FilterFailed(f"{value:.0f} seconds from 1970 is outside the calendar") from None
    if () in keys:
        return builtin_value(value), value is None
    is_whole = value is None or not isinstance(value, Mapping)
    taken = {} if is_whole else {key: builtin_value(value[key]) for key in {each[0] for each in keys} if key in value}
    is_absent = False
    for each, is_guarded in keys.items():
        if _lacks(taken, each):
            is_absent = True
            if not is_guarded:
                _put_null(taken, each)
    return taken, is_absent


def _lacks(table: dict[str, Any], keys: tuple[str, ...]) -> bool:
    found: Any = table
    for key in keys:
        if not isinstance(found, dict) or found.get(key) is None:
            return True
        found = found[key]
    return False


def _put_null(table: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Set a null value at the path of the keys, unless a value that is not a table is in the way."""
    for key in keys[:-1]:
        inner = table.setdefault(key, {})
        if inner is None:
            inner = table[key] = {}
        if not isinstance(inner, dict):
            return
        table = inner
    table.setdefault(keys[-1], None)


def program_of(expression: str) -> Any:
    """Return the CEL library's program of an expression, with unchecked names; raise `TextError` beyond a limit."""
    import cel  # imported here: it takes 0.1 s, and most configurations have no expressions

    check_length(expression)
    try:
        return cel.compile(expression)
    except ValueError as error:
        raise _placed(str(error), expression) from None


def _compiled(expression: str, found: ExaminedExpression) -> Any:
    import cel

    program = program_of(expression)
    for pattern in found.patterns:
        try:
            cel.evaluate(f"''.matches({pattern.text})")
        except RuntimeError as error:
            why = _PATTERN.search(str(error))
            what = f"not a regular expression: {why[1]}" if why else "not a regular expression"
            raise TextError(what, expression, pattern.place) from None
    for function, literal in found.conversions:
        try:
            cel.evaluate(f"{function.text}({literal.text})")
        except (RuntimeError, TypeError, ValueError):
            what = f"`{function.text}` cannot convert {literal.text}"
            raise TextError(what, expression, literal.place) from None
    check_types(expression)
    return program


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "a text"
    if isinstance(value, (int, float)):
        return "a number"
    return "nothing" if value is None else f"a {type(value).__name__}"


def _placed(message: str, expression: str) -> TextError:
    """Convert the library's error message to a `TextError`."""
    found = _SYNTAX.search(message)
    if found is None:
        return TextError("is not a valid CEL expression", expression, 0)
    line, column, what = int(found[1]), int(found[2]), found[3].partition(" expecting ")[0]
    if "<EOF>" in what and "mismatched" in what:
        what = "the expression is incomplete here"
    elif "token recognition" in what or "mismatched" in what or "extraneous" in what:
        what = "unexpected text"
    elif "Recursion limit" in found[0]:
        what = "too many nested brackets"
    start = sum(len(each) + 1 for each in expression.split("\n")[: line - 1])
    return TextError(what, expression, min(start + column - 1, len(expression)))
