"""Messages, requests and events recorded by a proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from amqproxy.rules.context import Client
from amqproxy.taps.message_record import MessageRecord
from amqproxy.testing.record_filter import RecordFilter

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
        unknown = fields.keys() - _FIELDS
        if unknown:
            raise TypeError(f"a record has no field {sorted(unknown)[0]!r}: there are {', '.join(sorted(_FIELDS))}")
        found = self
        if expression:
            __tracebackhide__ = True
            chosen = RecordFilter(expression)
            found = found.only(lambda each: chosen.holds(each, self._clients.get(each.stream) or Client()))
        return found.only(lambda each: all(getattr(each, name) == value for name, value in fields.items()))

    def only(self, is_wanted: Callable[[MessageRecord], bool]) -> Messages:
        """Return the records for which a function is true."""
        return Messages(filter(is_wanted, self), self._clients)
