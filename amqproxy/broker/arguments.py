"""Argument tables as RabbitMQ reads them: equivalence of values, and RabbitMQ's names of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Field, Table

TYPE_NAMES = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "U": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "L": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "x": "binary",
    "T": "timestamp",
    "A": "array",
    "F": "table",
    "V": "void",
}
"""RabbitMQ's names of the wire types, used in its reply texts."""

MAX_SHORT_STRING = 255


def check_short(what: str, text: str) -> None:
    """Raise 406 for a name or key that no short string can hold; clients cannot send one, but definitions may."""
    try:
        size = len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise PreconditionFailed(f"{what} is no text that can be encoded") from None
    if size > MAX_SHORT_STRING:
        raise PreconditionFailed(f"{what} has {size} bytes, and {MAX_SHORT_STRING} are the most")


_CLASSES = {**dict.fromkeys("bBsUuIilL", "integer"), **dict.fromkeys("fd", "float")}


def field(table: Table, name: str) -> Field | None:
    """Return the first field with a name, including its wire type; `None` if there is none."""
    return next((each for each in table.fields if each.name == name), None)


def in_order(table: Table) -> Table:
    """Return the table with its fields sorted by name, because the order of arguments has no meaning."""
    fields = table.fields
    return table if len(fields) < 2 else Table(sorted(fields, key=lambda each: each.name))


def comparable(value: Any) -> Any:
    """Return a value's comparison key: bytes equal their text, numbers compare by value, booleans equal no number."""
    if isinstance(value, bool):
        return ("bool", value)
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def erlang(value: object) -> str:
    """Return a value as RabbitMQ's reply texts show it between quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_same(what: str, vhost: str, pairs: Mapping[str, tuple[object, object]]) -> None:
    """Raise 406 for the first of `pairs` (received, current) that differ."""
    for name, (received, current) in pairs.items():
        if received != current:
            raise PreconditionFailed(
                f"inequivalent arg '{name}' for {what} in vhost '{vhost}': "
                f"received '{erlang(received)}' but current is '{erlang(current)}'"
            )


def check_equivalent(what: str, vhost: str, names: tuple[str, ...], received: Table, current: Table) -> None:
    """Raise 406 for the first of `names` whose arguments differ."""
    for name in names:
        new, old = field(received, name), field(current, name)
        if new == old or (new is not None and old is not None and _are_equal(new, old)):
            continue
        are_both = new is not None and old is not None
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {what} in vhost '{vhost}': "
            f"received {_described(new, are_both)} but current is {_described(old, are_both)}"
        )


def _are_equal(one: Field, other: Field) -> bool:
    same_class = _CLASSES.get(one.type, one.type) == _CLASSES.get(other.type, other.type)
    return same_class and bool(one.value == other.value)


def _described(found: Field | None, is_plain: bool) -> str:
    if found is None:
        return "none"
    value = f"'{erlang(found.value)}'"
    return value if is_plain else f"the value {value} of type '{TYPE_NAMES[found.type]}'"
