"""Index of the rules that may apply to each method, among those that may apply to a client."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091 import frame
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BY_INDEX, BasicPublish, QueueDeclare, QueueDeclareOk
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.rules.context import CommandContext
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.engine.last_queue import MAY_LEAVE_QUEUE_OUT
from amqproxy.rules.matching.match import HEARTBEAT
from amqproxy.rules.matching.operations import falls_back
from amqproxy.rules.rewriting.name_fields import MESSAGES
from amqproxy.rules.rule import Reversible
from amqproxy.rules.verdict import Stage

MAX_EXCHANGES = 1024
"""Maximum number of exchanges whose rules are cached, for each index and method."""


class MethodRules:
    """The rules for one method of one sender: those that decide, in order, and those that restore names.

    Restoring rules come with their `Reversible`, in reverse order for the server's commands and in order for the
    client's. The rules for an exchange are selected once per exchange.
    """

    __slots__ = ("_by_exchange", "_depends_on_exchange", "asked", "is_restored_alike", "restoring", "restoring_stage")

    def __init__(self, sender: Peer, method: str, asked: list[CompiledRule], restoring: list[CompiledRule]) -> None:
        self.asked = tuple(asked)
        ordered = restoring if sender is CLIENT else reversed(restoring)
        self.restoring: tuple[tuple[CompiledRule, Reversible], ...] = tuple(
            [(each, each.reversible) for each in ordered if each.reversible is not None]
        )
        self.restoring_stage = max([each.restoring_needs for _, each in self.restoring], default=Stage.NOTHING)
        constant = all(each.restores_alike(sender) for _, each in self.restoring)
        self.is_restored_alike = constant and self.restoring_stage <= Stage.METHOD
        """Whether the same method always gets the same names restored."""
        self._depends_on_exchange = method in MESSAGES and any(case.exchange_matches is not None for case in asked)
        self._by_exchange: dict[str, tuple[CompiledRule, ...]] = {}

    def candidates(self, method: Any) -> tuple[CompiledRule, ...]:
        """Return the rules that may hold for a method, in order."""
        if not self._depends_on_exchange:
            return self.asked
        if isinstance(method, BasicPublish) and falls_back(method):
            return self.asked
        exchange = method.exchange
        found = self._by_exchange.get(exchange)
        if found is None:
            if len(self._by_exchange) >= MAX_EXCHANGES:
                self._by_exchange.clear()
            found = tuple([case for case in self.asked if _may_be_about(case, exchange)])
            self._by_exchange[exchange] = found
        return found


def _may_be_about(case: CompiledRule, exchange: str) -> bool:
    return case.exchange_matches is None or case.exchange_matches(exchange)


class RuleIndex:
    """The rules by sender and method, for clients to which the same rules may apply."""

    __slots__ = ("_rows", "cases", "heartbeats", "tracks_last_queues", "wants")

    def __init__(self, cases: tuple[CompiledRule, ...], retired: tuple[CompiledRule, ...] = ()) -> None:
        """`retired` are rules from before a reload whose names may still be restored."""
        self.cases = cases
        self._rows: dict[Peer, list[MethodRules | None]] = {}
        self.wants: dict[Peer, bytes] = {}
        """For each peer, 1 at the index of each method that some rule may act on."""
        self.heartbeats: dict[Peer, MethodRules | None] = {}
        for sender in (CLIENT, SERVER):
            rows = [_row(cases, retired, sender, cls.name) for cls in BY_INDEX]
            self._rows[sender] = rows
            if sender is CLIENT:
                self.tracks_last_queues = any(rows[index] is not None for index in MAY_LEAVE_QUEUE_OUT)
                """Whether the last declared queue of each channel must be tracked."""
            index = (QueueDeclare if sender is CLIENT else QueueDeclareOk).index
            if self.tracks_last_queues and rows[index] is None:
                rows[index] = MethodRules(sender, BY_INDEX[index].name, [], [])
            self.wants[sender] = bytes([row is not None for row in rows])
            self.heartbeats[sender] = _row(cases, retired, sender, HEARTBEAT)

    def row(self, sender: Peer, index: int) -> MethodRules | None:
        """Return the rules of a method index; -1 is a heartbeat."""
        return self.heartbeats[sender] if index < 0 else self._rows[sender][index]

    def row_of(self, context: CommandContext) -> MethodRules | None:
        """Return the rules for a command's method, or for the heartbeat."""
        command = context.command
        return self.row(context.sender, -1 if is_heartbeat(command) else command.index)


def is_heartbeat(command: Command) -> bool:
    return bool(command.frames) and command.frames[0].kind == frame.HEARTBEAT


def _row(
    cases: tuple[CompiledRule, ...], retired: tuple[CompiledRule, ...], sender: Peer, method: str
) -> MethodRules | None:
    asked = [case for case in cases if case.may_ask_about(sender, method)]
    restoring = [case for case in (*retired, *cases) if case.may_restore(sender, method)]
    return MethodRules(sender, method, asked, restoring) if asked or restoring else None
