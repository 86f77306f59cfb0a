"""Suggestions for unknown keys, actions and words of a config."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import inspect

from amqproxy.rules.suggestions import did_you_mean

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN_KEY = re.compile(r"unknown field `([^`]*)`")
_UNKNOWN_WORD = re.compile(r"Invalid (?:enum )?value '([^']*)'")


def hint(kind: type, data: Any, what: str, path: str) -> str:
    """Return a suggestion for msgspec's error about `data` at `path` ("$.rules[0].match"); may be empty."""
    steps = [name or index for name, index in _STEP.findall(path)]
    key = _UNKNOWN_KEY.search(what)
    if key is not None:
        structs = [each for each in _at(kind, data, steps) if isinstance(each, inspect.StructType)]
        return _nearest(key[1], [field.encode_name for each in structs for field in each.fields])
    word = _UNKNOWN_WORD.search(what)
    if word is None:
        return ""
    words = [value for each in _at(kind, data, steps) for value in _words(each)]
    if not words and steps:
        around = [each for each in _at(kind, data, steps[:-1]) if isinstance(each, inspect.StructType)]
        words = [each.tag for each in around if each.tag_field == steps[-1]]
    return _nearest(word[1], [str(each) for each in words], is_listed=True)


def _nearest(name: str, names: list[str], *, is_listed: bool = False) -> str:
    suggestion = did_you_mean(name, names)
    if suggestion or not is_listed or not names:
        return suggestion
    return f": it is one of {', '.join(sorted(set(names)))}"


def _words(kind: inspect.Type) -> Iterable[Any]:
    if isinstance(kind, inspect.LiteralType):
        return kind.values
    return [each.value for each in kind.cls] if isinstance(kind, inspect.EnumType) else []


def _at(kind: type, data: Any, steps: list[str]) -> list[inspect.Type]:
    """Return the possible types at the path, given the data on it."""
    types = chosen(inspect.type_info(kind), data)
    for step in steps:
        inner = _inner(data, step)
        types = [found for each in types for next_ in _into(each, step) for found in chosen(next_, inner)]
        data = inner
    return types


def _inner(data: Any, step: str) -> Any:
    if isinstance(data, dict):
        return data.get(step)
    if isinstance(data, list) and step.isdigit() and int(step) < len(data):
        return data[int(step)]
    return None


def chosen(kind: inspect.Type, data: Any) -> list[inspect.Type]:
    """Return the type, or the alternatives of a union that the data may belong to."""
    if isinstance(kind, inspect.Metadata):
        return chosen(kind.type, data)
    if not isinstance(kind, inspect.UnionType):
        return [kind]
    kinds = [found for each in kind.types for found in chosen(each, data)]
    meant: list[inspect.Type] = [
        each
        for each in kinds
        if isinstance(each, inspect.StructType)
        and isinstance(data, dict)
        and each.tag_field is not None
        and data.get(each.tag_field) == each.tag
    ]
    return meant or kinds


def _into(kind: inspect.Type, step: str) -> Iterable[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        return [field.type for field in kind.fields if field.encode_name == step]
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return [kind.item_type]
    if isinstance(kind, inspect.DictType):
        return [kind.value_type]
    return []
