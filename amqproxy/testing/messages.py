"""Messages, requests and events recorded by a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from amqproxy.rules.context import Client
from amqproxy.taps.message_record import MessageRecord
from amqproxy.testing.record_filter import RecordFilter
from amqproxy.testing.trace_text import message_lines

_FIELDS = frozenset(MessageRecord.__struct_fields__)


class Messages(list[MessageRecord]):
    """A list of records, ordered by time. `clients` maps the number of a connection to its client."""

    def __init__(self, records: Iterable[MessageRecord] = (), clients: Mapping[int, Client] | None = None) -> None:
        super().__init__(records)
        self._clients = clients or {}

    def where(self, expression: str = "", **fields: Any) -> Messages:
        """Return the messages and requests for which a CEL expression holds, and whose fields have these values.

            proxy.messages.where("exchange == 'orders' && headers.tenant == 'acme'", outcome="nacked")

        Raise `ValueError` if the expression is wrong, `TypeError` for an unknown field.
        """
        __tracebackhide__ = True
        unknown = fields.keys() - _FIELDS
        if unknown:
            raise TypeError(f"a record has no field {sorted(unknown)[0]!r}: there are {', '.join(sorted(_FIELDS))}")
        found = self
        if expression:
            chosen = RecordFilter(expression)
            found = found.only(lambda each: chosen.holds(each, self._clients.get(each.stream) or Client()))
        return found.only(lambda each: all(getattr(each, name) == value for name, value in fields.items()))

    def one(self, expression: str = "", **fields: Any) -> MessageRecord:
        """Return the only message or request that `where` finds; raise `AssertionError` if there is none, or several.

        It does not wait for messages that are still on their way: use `wait_for` of the proxy for these.
        """
        __tracebackhide__ = True
        found = self.where(expression, **fields)
        if len(found) != 1:
            shown = message_lines(found or self) or "  nothing was recorded"
            raise AssertionError(f"{len(found)} messages instead of one: {criteria(expression, fields)}\n{shown}")
        return found[0]

    def only(self, is_wanted: Callable[[MessageRecord], bool]) -> Messages:
        """Return the records for which a function is true."""
        return Messages(filter(is_wanted, self), self._clients)


def criteria(expression: str, fields: Mapping[str, Any]) -> str:
    """Return the criteria of `Messages.where` for an error text."""
    return ", ".join([expression or "any message", *(f"{name}={value!r}" for name, value in fields.items())])
