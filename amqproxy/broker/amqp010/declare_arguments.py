"""Declaration arguments of 0-10 clients in the model's terms, including Qpid's names for those of RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqproxy.amqp010.errors import IllegalArgument
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.wire import Field, Table
from amqproxy.conversion.amqp010.header_tables import map_of, table_of

ALTERNATE, DEAD_LETTER_EXCHANGE = "alternate-exchange", "x-dead-letter-exchange"

EXCLUSIVITY, LIFETIME = "qpid.exclusivity_policy", "qpid.lifetime_policy"
"""Queue arguments kept under their own names."""

SESSION, CONNECTION, NONE = "SESSION", "CONNECTION", "NONE"
"""Values of `EXCLUSIVITY`: who owns the queue."""

PERMANENT, DELETE_ON_CONNECTION_CLOSE = "PERMANENT", "DELETE_ON_CONNECTION_CLOSE"
"""Values of `LIFETIME`."""

_QPID_PREFIXES = ("qpid.", "x-qpid-")


def _priorities(levels: int) -> Field | None:
    """Return `x-max-priority` for a number of priority levels: one less than it."""
    return Field("x-max-priority", "I", min(levels, 256) - 1) if levels > 1 else None


_NUMBERS: dict[str, Callable[[int], Field | None]] = {
    "qpid.max_count": lambda value: Field("x-max-length", "l", value),
    "qpid.max_size": lambda value: Field("x-max-length-bytes", "l", value),
    "qpid.priorities": _priorities,
    "x-qpid-priorities": _priorities,
    "qpid.auto_delete_timeout": lambda value: Field("x-expires", "l", 1000 * value) if value else None,
}
"""Qpid arguments whose values are non-negative numbers, and RabbitMQ's argument for each."""

_POLICY_TYPE = "qpid.policy_type"
_OVERFLOWS = {"reject": "reject-publish", "ring": "drop-head", "ring_strict": "drop-head"}
_CHOICES: dict[str, tuple[str, ...]] = {
    EXCLUSIVITY: (NONE, SESSION, CONNECTION),
    LIFETIME: (PERMANENT, DELETE_ON_CONNECTION_CLOSE),
}
_TEXTS = ("x-qpid-description",)
"""Arguments without an effect on the queue, as in Broker-J."""


def exchange_arguments(arguments: Map | None, alternate: str | None) -> Table:
    """Return the model's arguments for an exchange that is declared."""
    fields = _fields(arguments, ALTERNATE)
    if alternate is not None:
        fields.append(Field(ALTERNATE, "S", alternate))
    return Table(fields)


def queue_arguments(arguments: Map | None, alternate: str | None, *, is_exclusive: bool = False) -> Table:
    """Return the model's arguments for a queue; `is_exclusive` if it is declared as the session's own.

    `IllegalArgument` for a Qpid argument that the broker does not implement, or whose value is invalid: Broker-J
    refuses unknown arguments with the same code.
    """
    fields = []
    for field in _fields(arguments, DEAD_LETTER_EXCHANGE if alternate is not None else ""):
        fields.append(field)
        fields += _translated(field)
    names = {field.name for field in fields}
    found = {field.name: field.value for field in fields}
    if (found.get(EXCLUSIVITY) == CONNECTION) != (found.get(LIFETIME) == DELETE_ON_CONNECTION_CLOSE):
        raise IllegalArgument(f"{EXCLUSIVITY} = {CONNECTION} needs {LIFETIME} = {DELETE_ON_CONNECTION_CLOSE}")
    if names & {"qpid.max_count", "qpid.max_size"} and "x-overflow" not in names:
        fields.append(Field("x-overflow", "S", "reject-publish"))  # Qpid's default, unlike RabbitMQ's drop-head
    if is_exclusive and EXCLUSIVITY not in names:
        fields.append(Field(EXCLUSIVITY, "S", SESSION))  # Broker-J shows it in queue.query, too
    if alternate is not None:
        fields.append(Field(DEAD_LETTER_EXCHANGE, "S", alternate))
    return Table(fields)


def _translated(field: Field) -> list[Field]:
    """Return RabbitMQ's arguments for one of Qpid's; `IllegalArgument` if it cannot be honoured."""
    name, value = field.name, field.value
    if name in _NUMBERS:
        number = _number(value)
        if number is None:
            raise _illegal(field, "a number that is not negative")
        extra = _NUMBERS[name](number)
        return [] if extra is None else [extra]
    if name == _POLICY_TYPE:
        if not isinstance(value, str) or value.lower() not in _OVERFLOWS:
            raise _illegal(field, " or ".join(_OVERFLOWS))
        return [Field("x-overflow", "S", _OVERFLOWS[value.lower()])]
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise _illegal(field, " or ".join(_CHOICES[name]))
    elif name.startswith(_QPID_PREFIXES) and name not in _TEXTS:
        raise IllegalArgument(f"the queue argument '{name}' is not supported", field_index=_ARGUMENTS)
    return []


_ARGUMENTS = 6
"""Index of the arguments among queue.declare's fields."""


def _illegal(field: Field, expected: str) -> IllegalArgument:
    text = f"the queue argument '{field.name}' is {field.value!r}: expected {expected}"
    return IllegalArgument(text, field_index=_ARGUMENTS)


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


def _fields(arguments: Map | None, without: str) -> list[Field]:
    return [] if arguments is None else [each for each in table_of(arguments).fields if each.name != without]


def shown_arguments(arguments: Table) -> Map:
    """Return the arguments of a queue or an exchange for a query's result, as they were declared."""
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
