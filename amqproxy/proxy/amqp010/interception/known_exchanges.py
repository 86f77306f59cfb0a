"""Destinations of transfers that proved to be exchanges, as observed on one connection.

Qpid Broker-J takes a destination that is not an exchange for the name of a queue; and if there is no such queue either,
it routes the message by the default exchange. Therefore, rules about these also apply to a transfer to a destination
unless that is known to be an exchange: the broker has said so, or the client has declared it on the same session. If
that fails, the broker accepts nothing more on that session, but it does on others.

Deletions by other connections are not recorded: tenants have other names for the same exchange, and a broker has
clients that bypass the proxy. Until this client is told, its transfers to a deleted exchange fall back as on the
broker.
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
from amqproxy.proxy.interception.queued_bytes import QueuedBytes

MAX_EXCHANGES = 65_536
"""Maximum of names remembered for one connection, and of queries awaiting results."""

STANDARD = frozenset({"amq.direct", "amq.fanout", "amq.topic", "amq.match"})

SHOWS_EXCHANGES = frozenset(
    cls.index for cls in BY_INDEX if cls in (ExchangeDeclare, ExchangeDelete, ExchangeQuery, ExchangeBound)
)
"""The client's commands to record; of the server's, it is execution.result, while a result `is_awaited`."""


ENTRY_COST = 512
"""Approximate bytes of memory for one name."""


class KnownExchanges:
    """Exchanges known on one connection, by the client's names for them; their memory is charged to `load`."""

    __slots__ = ("_asked", "_counted", "_declared", "_load", "_names")

    def __init__(self, load: QueuedBytes) -> None:
        self._load = load
        self._counted = 0
        self._names: set[str] = set()
        self._declared: dict[int, set[str]] = {}
        self._asked: dict[tuple[int, int], str] = {}

    @property
    def is_awaited(self) -> bool:
        """Whether the result of a query about an exchange is outstanding."""
        return bool(self._asked)

    def falls_back(self, channel: int, method: Method) -> bool:
        """Whether a client's transfer may go to a queue of that name, or be routed by the default exchange."""
        if not isinstance(method, MessageTransfer) or not method.destination:
            return False
        name = method.destination
        return name not in STANDARD and name not in self._names and name not in self._declared.get(channel, ())

    def note_command(self, channel: int, position: int, method: Method) -> None:
        """Record a client command on a channel that is forwarded."""
        match method:
            case ExchangeDeclare() if not method.auto_delete:
                self._add(method.exchange or "", self._declared.setdefault(channel, set()))
            case ExchangeDelete():
                self._remove(method.exchange or "")
            case ExchangeQuery():
                self._ask(channel, position, method.name_ or "")
            case ExchangeBound():
                self._ask(channel, position, method.exchange or "")
            case _:
                pass
        self._count()

    def note_result(self, channel: int, method: Method) -> None:
        """Record a result for the client, with the command id that the client knows."""
        if isinstance(method, ExecutionResult) and method.command_id is not None:
            name = self._asked.pop((channel, method.command_id), None)
            match method.value:
                case ExchangeQueryResult(not_found=False) | ExchangeBoundResult(exchange_not_found=False):
                    self._add(name or "", self._names)
                case _:
                    pass
            self._count()

    def leave(self, channel: int) -> None:
        """Forget a channel's session that the client begins or ends; results still outstanding are ignored."""
        self._declared.pop(channel, None)
        for each in self._asked:
            if each[0] == channel:
                self._asked[each] = ""
        self._count()

    def forget(self, channel: int) -> None:
        """Forget a channel's session that the broker has ended: no more results will come on it."""
        self._declared.pop(channel, None)
        for each in [each for each in self._asked if each[0] == channel]:
            del self._asked[each]
        self._count()

    @property
    def _known(self) -> int:
        return len(self._names) + sum(map(len, self._declared.values()))

    def _count(self) -> None:
        counted, self._counted = self._counted, self._known + len(self._asked)
        self._load.add((self._counted - counted) * ENTRY_COST)

    def _add(self, name: str, names: set[str]) -> None:
        if name and self._known < MAX_EXCHANGES:
            names.add(name)

    def _remove(self, name: str) -> None:
        """Forget a deleted exchange, and outstanding queries about it, whose results would be out of date."""
        for names in (self._names, *self._declared.values()):
            names.discard(name)
        for each, asked in self._asked.items():
            if asked == name:
                self._asked[each] = ""

    def _ask(self, channel: int, position: int, name: str) -> None:
        if len(self._asked) < MAX_EXCHANGES:
            self._asked.setdefault((channel, id_of(position)), name)
