"""Methods rebuilt from the names and arguments in tables.

Information that JSON lacks is lost: the exact types of values. The field for the alternate exchange of a
declare becomes an argument.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any

import msgspec

from amqproxy.amqp091.methods import BY_NAME, Method
from amqproxy.amqp091.wire import Table
from amqproxy.rules.matching.operations import ALTERNATE_EXCHANGE, DEAD_LETTER_EXCHANGE

_ALTERNATE = {"exchange.declare": ALTERNATE_EXCHANGE, "queue.declare": DEAD_LETTER_EXCHANGE}
"""Arguments that replace the field `alternate_exchange`."""


@lru_cache(maxsize=4096)
def method_of(name: str, arguments: str | None) -> Method | None:
    """Return the method with these arguments, a JSON object; `None` for an unknown name."""
    kind = BY_NAME.get(name)
    if kind is None:
        return None
    given = msgspec.json.decode(arguments) if arguments else {}
    alternate = given.get("alternate_exchange")
    if alternate and name in _ALTERNATE:
        given["arguments"] = (given.get("arguments") or {}) | {_ALTERNATE[name]: alternate}
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
    return kind(**{name: _value(fields[name].default, value) for name, value in given.items() if name in fields})


def table_of(value: Any) -> Table:
    """Return a table from its JSON."""
    entries = [(name, each) for name, values in (value or {}).items() for each in _repeated(values)]
    return Table([field for name, each in entries for field in Table({name: _entry(each)}).fields])


def _repeated(value: Any) -> list[Any]:
    """Return the values of a name, as `json_entries` writes them."""
    match value:
        case {"repeated": [first, *rest]} if len(value) == 1:
            return [first, *rest]
        case _:
            return [value]


def _value(default: Any, value: Any) -> Any:
    return table_of(value) if isinstance(default, Table) else _text(value)


def _entry(value: Any) -> Any:
    match value:
        case {"base64": str()} if len(value) == 1:
            return _text(value)
        case dict():
            return table_of(value)
        case int() if value >> 63 > 0:  # no type of 0-9-1
            return str(value)
        case list():
            return [_entry(each) for each in value]
        case _:
            return value


def _text(value: Any) -> Any:
    """Return a text, possibly one that is not UTF-8."""
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        return base64.b64decode(value["base64"]).decode("utf-8", "surrogateescape")
    return value
