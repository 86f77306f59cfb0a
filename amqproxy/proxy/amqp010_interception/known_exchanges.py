"""Which destinations of transfers are exchanges, as far as one connection shows it.

Qpid Broker-J takes a destination that is no exchange for the name of a queue; and where there is no such queue either,
it has the default exchange route the message. So what rules say of these holds for a transfer to a destination unless
that is known to be an exchange: the client has declared it, or the broker has said so.
"""

from __future__ import annotations

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import (
    ExchangeBound,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeQuery,
    ExecutionResult,
    MessageTransfer,
)
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.amqp010.results import ExchangeBoundResult, ExchangeQueryResult

MAX_EXCHANGES = 65_536
"""Names that are remembered of one connection, and questions that are."""

STANDARD = frozenset({"amq.direct", "amq.fanout", "amq.topic", "amq.match"})

SHOWS_EXCHANGES = frozenset(
    cls.index for cls in BY_INDEX if cls in (ExchangeDeclare, ExchangeDelete, ExchangeQuery, ExchangeBound)
)
"""The commands of a client to be noted; of the server, it is execution.result, while an answer `is_awaited`."""


class KnownExchanges:
    """Of one connection, by the names that the client has for them."""

    __slots__ = ("_asked", "_names")

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._asked: dict[tuple[int, int], str] = {}

    @property
    def is_awaited(self) -> bool:
        """Has the client asked for an exchange?"""
        return bool(self._asked)

    def falls_back(self, method: Method) -> bool:
        """May what a client transfers go to a queue of that name, or be routed by the default exchange?"""
        if not isinstance(method, MessageTransfer) or not method.destination:
            return False
        return method.destination not in STANDARD and method.destination not in self._names

    def note_command(self, channel: int, position: int, method: Method) -> None:
        """Note what the client has sent on a channel, that goes on."""
        match method:
            case ExchangeDeclare() if not method.auto_delete:
                self._add(method.exchange or "")
            case ExchangeDelete():
                self._names.discard(method.exchange or "")
            case ExchangeQuery():
                self._ask(channel, position, method.name_ or "")
            case ExchangeBound():
                self._ask(channel, position, method.exchange or "")
            case _:
                pass

    def note_result(self, channel: int, method: Method) -> None:
        """Note what the client is answered, under the id that it knows."""
        if isinstance(method, ExecutionResult) and method.command_id is not None:
            name = self._asked.pop((channel, method.command_id), None)
            match method.value:
                case ExchangeQueryResult(not_found=False) | ExchangeBoundResult(exchange_not_found=False):
                    self._add(name or "")
                case _:
                    pass

    def forget(self, channel: int) -> None:
        """The session on a channel has ended."""
        for each in [each for each in self._asked if each[0] == channel]:
            del self._asked[each]

    def _add(self, name: str) -> None:
        if name and len(self._names) < MAX_EXCHANGES:
            self._names.add(name)

    def _ask(self, channel: int, position: int, name: str) -> None:
        if len(self._asked) < MAX_EXCHANGES:
            self._asked[channel, id_of(position)] = name
