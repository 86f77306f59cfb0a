"""Which rules can be about which method, among those that can be about a client at all."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.grammar import CLIENT, SERVER, Peer
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.rules.case import Case
from amqproxy.rules.match import HEARTBEAT
from amqproxy.rules.verdict import Stage


class Row:
    """The rules for one method of one sender: to be asked in order, and to be asked to restore names, in reverse.

    Where rules name the exchanges that they are about, those for another exchange are not even looked at.
    """

    __slots__ = ("_by_exchange", "_others", "asked", "restores_for_good", "restoring", "restoring_stage")

    def __init__(self, asked: list[Case], restoring: list[Case]) -> None:
        self.asked = tuple(asked)
        self.restoring = tuple(reversed(restoring))
        self.restoring_stage = max([each.rule.restoring_needs for each in restoring], default=Stage.NOTHING)
        self.restores_for_good = self.restoring_stage <= Stage.METHOD and all(
            each.rule.is_constant for each in restoring
        )
        """Do the same names come back for the same method, always?"""
        named = {exchange for case in asked if case.exchanges is not None for exchange in case.exchanges}
        self._others = tuple([case for case in asked if case.exchanges is None])
        self._by_exchange = {
            exchange: tuple([case for case in asked if case.exchanges is None or exchange in case.exchanges])
            for exchange in named
        }

    def candidates(self, method: Any) -> tuple[Case, ...]:
        """The rules that may hold of a method, in order."""
        if not self._by_exchange:
            return self.asked
        exchange = getattr(method, "exchange", None)
        if exchange is None:
            exchange = getattr(method, "source", None)
        return self._by_exchange.get(str(exchange), self._others)


class Table:
    """The rows of every method and sender, for the clients of whom the same rules can hold."""

    __slots__ = ("_rows", "heartbeats", "wants")

    def __init__(self, cases: tuple[Case, ...], retired: tuple[Case, ...] = ()) -> None:
        """`retired` are rules of before a reload, whose names may still come back."""
        self._rows: dict[Peer, list[Row | None]] = {}
        self.wants: dict[Peer, bytes] = {}
        """A 1 at the index of each method that some rule may act on."""
        self.heartbeats: dict[Peer, Row | None] = {}
        for sender in (CLIENT, SERVER):
            rows = [_row(cases, retired, sender, cls.name) for cls in BY_INDEX]
            self._rows[sender] = rows
            self.wants[sender] = bytes([row is not None for row in rows])
            self.heartbeats[sender] = _row(cases, retired, sender, HEARTBEAT)

    def row(self, sender: Peer, index: int) -> Row | None:
        """`index` is the method's, or -1 for a heartbeat."""
        return self.heartbeats[sender] if index < 0 else self._rows[sender][index]


def _row(cases: tuple[Case, ...], retired: tuple[Case, ...], sender: Peer, method: str) -> Row | None:
    asked = [case for case in cases if case.may_ask_about(sender, method)]
    restoring = [case for case in (*retired, *cases) if case.may_restore(sender, method)]
    return Row(asked, restoring) if asked or restoring else None
