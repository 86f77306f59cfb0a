"""The arguments with which 0-10 clients declare, as the model has them: Qpid's names of what RabbitMQ has, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.wire import Field, Table
from amqproxy.conversion.header_tables import map_of, table_of

ALTERNATE, DEAD_LETTER_EXCHANGE = "alternate-exchange", "x-dead-letter-exchange"


def _priorities(levels: Any) -> Field | None:
    """So many levels; the highest priority is one less."""
    return Field("x-max-priority", "I", min(levels, 256) - 1) if levels > 1 else None


_QPID: dict[str, Callable[[Any], Field | None]] = {
    "qpid.max_count": lambda value: Field("x-max-length", "l", value),
    "qpid.max_size": lambda value: Field("x-max-length-bytes", "l", value),
    "qpid.priorities": _priorities,
    "x-qpid-priorities": _priorities,
    "qpid.auto_delete_timeout": lambda value: Field("x-expires", "l", 1000 * value) if value else None,
}
"""Arguments of Qpid's whose values are numbers that are not negative."""

_OVERFLOWS = {"reject": "reject-publish", "ring": "drop-head", "ring_strict": "drop-head"}


def exchange_arguments(arguments: Map | None, alternate: str | None) -> Table:
    """Those of an exchange."""
    fields = _fields(arguments, ALTERNATE)
    if alternate is not None:
        fields.append(Field(ALTERNATE, "S", alternate))
    return Table(fields)


def queue_arguments(arguments: Map | None, alternate: str | None) -> Table:
    """Those of a queue."""
    fields = []
    for field in _fields(arguments, DEAD_LETTER_EXCHANGE if alternate is not None else ""):
        made = _QPID.get(field.name)
        number = _number(field.value)
        fields.append(field)
        if made is not None and number is not None and (extra := made(number)) is not None:
            fields.append(extra)
        elif field.name == "qpid.policy_type" and field.value in _OVERFLOWS:
            fields.append(Field("x-overflow", "S", _OVERFLOWS[field.value]))
    names = {field.name for field in fields}
    if names & {"qpid.max_count", "qpid.max_size"} and "x-overflow" not in names:
        fields.append(Field("x-overflow", "S", "reject-publish"))  # as with Qpid
    if alternate is not None:
        fields.append(Field(DEAD_LETTER_EXCHANGE, "S", alternate))
    return Table(fields)


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


def _fields(arguments: Map | None, without: str) -> list[Field]:
    return [] if arguments is None else [each for each in table_of(arguments).fields if each.name != without]


def shown_arguments(arguments: Table) -> Map:
    """The arguments of a queue or an exchange as a query's result has them: as they were given, that is."""
    names = {field.name for field in arguments.fields}
    hidden = {ALTERNATE, DEAD_LETTER_EXCHANGE}
    for name, extra in (
        ("qpid.max_count", "x-max-length"),
        ("qpid.max_size", "x-max-length-bytes"),
        ("qpid.priorities", "x-max-priority"),
        ("x-qpid-priorities", "x-max-priority"),
        ("qpid.auto_delete_timeout", "x-expires"),
        ("qpid.policy_type", "x-overflow"),
    ):
        if name in names:
            hidden |= {extra, "x-overflow"}
    return map_of(Table([field for field in arguments.fields if field.name not in hidden]))
