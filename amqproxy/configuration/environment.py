"""Environment variables that set keys of the config: `AMQPROXY_` and the path of the key, with `__` between its parts.

`AMQPROXY_LIMITS__DRAIN_TIMEOUT` is `limits.drain_timeout`, `AMQPROXY_LISTEN__0__ADDRESS` the address of the first
listener. The names are derived from the types of the config. Two underscores separate, since keys contain single ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import inspect

from amqproxy.configuration.hints import chosen
from amqproxy.configuration.source_lines import Path

PREFIX = "AMQPROXY_"

FILE = "AMQPROXY_CONFIG"
"""Variable with the path of the config file, for commands without --config."""

_SEPARATOR = "__"
_SERVICE = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""Variables of a Kubernetes service named amqproxy, or amqproxy-…, which each pod of its namespace has."""

_CLOSE = 0.82
"""Similarity to a key above which a variable counts as misspelt; AMQPROXY_PURE and the like are below it."""

_JSON = ("{", "[{", '["', "[[", "[]")
"""Beginnings of JSON; "[" alone may begin an IPv6 address."""


class WrongVariable(ValueError):
    """Raised for a variable that sets no key, or whose value cannot be read; the text begins with its name."""


def with_environment(kind: type, data: Any, environment: Mapping[str, str]) -> tuple[Any, dict[Path, str]]:
    """Return data of a `kind` with the keys that variables set, and these variables by the paths of their keys.

    Empty variables count as unset. Raise `WrongVariable`.
    """
    variables: dict[Path, str] = {}
    root = inspect.type_info(kind) if any(name.startswith(PREFIX) for name in environment) else None
    if root is None or not isinstance(data, dict):
        return data, variables
    for name in sorted(filter(_may_be_key, environment), key=_order):
        text = environment[name].strip()
        if not text:
            continue
        try:
            data, path = _set(root, data, _steps(name), text)
        except _NoSuchKey:
            meant = _meant(name, [variable for variable, _ in variables_of(kind)])
            if meant:
                raise WrongVariable(f"{name}: there is no such key: did you mean {meant}?") from None
            if _SEPARATOR in name:
                raise WrongVariable(f"{name}: there is no such key: see `amqproxy config show`") from None
            continue
        except ValueError as error:
            raise WrongVariable(f"{name}: {error}") from None
        variables[path] = name
    return data, variables


def variables_of(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the variable of each key, and the key: `AMQPROXY_LISTEN__0__ADDRESS`, `listen.address`.

    `0` stands for any place in a list, `NAME` for any name in a table. Rules, whose keys depend on their action, are
    one variable.
    """
    yield from _variables(inspect.type_info(kind), PREFIX.removesuffix("_"), "_", "")


def variable_at(path: Path, variables: Mapping[Path, str]) -> str | None:
    """Return the variable that has set the value at a path, or a value that contains it."""
    return next((variables[path[:size]] for size in range(len(path), 0, -1) if path[:size] in variables), None)


class _NoSuchKey(Exception):
    pass


def _may_be_key(name: str) -> bool:
    return name.startswith(PREFIX) and _SERVICE.fullmatch(name.removeprefix(PREFIX)) is None


def _order(name: str) -> list[tuple[int, str]]:
    """Sort whole values before their parts, and items of lists by number."""
    return [(int(step), "") if step.isdecimal() else (0, step) for step in _steps(name)]


def _steps(name: str) -> list[str]:
    return name.removeprefix(PREFIX).split(_SEPARATOR)


def _word(name: str) -> str:
    """Return a key as variables spell it."""
    return re.sub(r"\W", "_", name).upper()


def _set(kind: inspect.Type, data: Any, steps: Sequence[str], text: str) -> tuple[Any, Path]:
    """Return the data with a value at `steps`, and the path of that value."""
    if not steps:
        return _value(kind, data, text)
    step, rest = steps[0], steps[1:]
    table: dict[str, Any] = data if isinstance(data, dict) else {}
    for each in chosen(kind, data):
        key: str | None = None
        inner: inspect.Type
        if isinstance(each, inspect.StructType):
            for field in each.fields:
                if _word(field.encode_name) == step:
                    key, inner = field.encode_name, field.type
        elif isinstance(each, inspect.DictType) and step:
            key, inner = next((name for name in table if _word(str(name)) == step), step.lower()), each.value_type
        elif isinstance(each, inspect.VarTupleType | inspect.ListType) and step.isdecimal():
            items = list(data) if isinstance(data, list) else []
            place = int(step)
            if place > len(items):
                raise ValueError(f"{place} is not the next item: that is {len(items)}")
            value, path = _set(each.item_type, items[place] if place < len(items) else None, rest, text)
            return [*items[:place], value, *items[place + 1 :]], (place, *path)
        if key is not None:
            value, path = _set(inner, table.get(key), rest, text)
            return {**table, key: value}, (key, *path)
    raise _NoSuchKey


def _value(kind: inspect.Type, before: Any, text: str) -> tuple[Any, Path]:
    """Return the value that a text means, and its path: a section's text is its first key, such as its address."""
    kinds = chosen(kind, None)
    if text.startswith(_JSON) and not all(_is_scalar(each) for each in kinds):
        try:
            return msgspec.json.decode(text), ()
        except msgspec.DecodeError as error:
            raise ValueError(f"not valid JSON: {error}") from None
    if text == "null" and any(isinstance(each, inspect.NoneType) for each in kinds):
        return None, ()
    for each in kinds:
        if isinstance(each, inspect.LiteralType) and text in each.values:
            return text, ()
        if len(kinds) > 1 and isinstance(each, inspect.StrType) and each.pattern and re.search(each.pattern, text):
            return text, ()  # a name in place of a section
    for each in kinds:
        match each:
            case inspect.StrType():
                return text, ()
            case inspect.BoolType() if text.lower() in ("true", "false"):
                return text.lower() == "true", ()
            case inspect.IntType() | inspect.FloatType():
                return _number(text), ()
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                return [_value(item, None, part.strip())[0] for part in text.split(",") if part.strip()], ()
            case inspect.StructType(fields=(first, *_)) if _is_text(first.type):
                table = before if isinstance(before, dict) else {}
                return {**table, first.encode_name: text}, (first.encode_name,)
            case inspect.StructType(fields=(first, *_)):
                key = _word(first.encode_name)
                raise ValueError(f"a section: add {_SEPARATOR}{key} or another of its keys to the name, or set JSON")
            case inspect.DictType():
                raise ValueError(f"a table: add {_SEPARATOR} and a key to the name, or set JSON")
    return text, ()


def _number(text: str) -> Any:
    """Return a number, or the text of a quantity such as "200ms"."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_scalar(kind: inspect.Type) -> bool:
    structures = inspect.StructType | inspect.DictType | inspect.VarTupleType | inspect.ListType
    return not isinstance(kind, structures)


def _is_text(kind: inspect.Type) -> bool:
    return any(isinstance(each, inspect.StrType) for each in chosen(kind, None))


def _variables(kind: inspect.Type, variable: str, separator: str, key: str) -> Iterator[tuple[str, str]]:
    if key:
        yield variable, key
    for each in chosen(kind, None):
        if isinstance(each, inspect.StructType) and each.tag_field is None:
            for field in each.fields:
                name = field.encode_name
                inner = f"{variable}{separator}{_word(name)}"
                yield from _variables(field.type, inner, _SEPARATOR, f"{key}.{name}".lstrip("."))
        elif isinstance(each, inspect.VarTupleType | inspect.ListType):
            yield from _inner(each.item_type, f"{variable}{_SEPARATOR}0", key)
        elif isinstance(each, inspect.DictType):
            yield from _inner(each.value_type, f"{variable}{_SEPARATOR}NAME", key)


def _inner(kind: inspect.Type, variable: str, key: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of the keys in each item of a list or table."""
    yield from (found for found in _variables(kind, variable, _SEPARATOR, key) if found[1] != key)


def _meant(name: str, variables: Sequence[str]) -> str:
    """Return the variable that a wrong one is a misspelling of, such as one with single underscores; may be empty."""
    plain = {_plain(each): each for each in variables}
    close = get_close_matches(_plain(name), list(plain), n=1, cutoff=_CLOSE)
    return plain[close[0]] if close else ""


def _plain(variable: str) -> str:
    """Return a variable without its prefix, its underscores, and the numbers of items."""
    return re.sub(r"_+\d+_+|_", "", variable.removeprefix(PREFIX))
