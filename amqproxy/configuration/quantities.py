"""Conversion of quantities written as texts, such as "200ms", to numbers, before config data is decoded."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msgspec import inspect

from amqproxy.configuration.hints import chosen
from amqproxy.rules.units import IN_SCHEMA, number

_MAYBE = re.compile(r"\s*\d+(\.\d+)?\s*[A-Za-z]*\s*")


def numbered(kind: type, data: Any) -> Any:
    """Return the data of a `kind`, with quantities converted from texts to numbers.

    Raise `ValueError`, with the path in front, for a text where only a number or a quantity is allowed.
    """
    if not _has_any(data):  # usual for configs; inspecting types takes time
        return data
    return _numbered(_info(kind), data, "")


@lru_cache(maxsize=4)
def _info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _has_any(data: Any) -> bool:
    if isinstance(data, str):
        return _MAYBE.fullmatch(data) is not None
    if isinstance(data, dict):
        return any(_has_any(each) for each in data.values())
    return isinstance(data, list) and any(_has_any(each) for each in data)


def _numbered(kind: inspect.Type, data: Any, path: str) -> Any:
    if isinstance(data, str):
        quantity = _quantity(kind)
        if quantity is None or not data[:1].strip():
            return data
        try:
            return number(quantity, data)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    for each in chosen(kind, data):
        if isinstance(each, inspect.StructType) and isinstance(data, dict):
            fields = {field.encode_name: field.type for field in each.fields}
            return {
                key: _numbered(fields[key], inner, f"{path}.{key}") if key in fields else inner
                for key, inner in data.items()
            }
        if isinstance(each, inspect.DictType) and isinstance(data, dict):
            return {key: _numbered(each.value_type, inner, f"{path}.{key}") for key, inner in data.items()}
        if isinstance(each, inspect.VarTupleType | inspect.ListType) and isinstance(data, list):
            return [_numbered(each.item_type, inner, f"{path}[{place}]") for place, inner in enumerate(data)]
    return data


def _quantity(kind: inspect.Type) -> str | None:
    """Return the quantity that a text must be, if it can be nothing else."""
    if isinstance(kind, inspect.Metadata):
        return (kind.extra or {}).get(IN_SCHEMA) or _quantity(kind.type)
    if isinstance(kind, inspect.UnionType):
        if any(isinstance(each, inspect.StrType) for each in kind.types):
            return None
        return next(filter(None, map(_quantity, kind.types)), None)
    return None
