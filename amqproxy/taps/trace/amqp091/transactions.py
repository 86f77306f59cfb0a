"""Transactions of one channel: the publishes and acknowledgements that take effect with tx.commit.

AMQP 0-9-1 section 1.9.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.events import DeliveriesSettled

MAX_TRANSACTIONS = 1024
"""Limit on the unanswered commits and rollbacks of one channel."""


class EndedTransaction(NamedTuple):
    """A transaction whose tx.commit or tx.rollback was sent: its last publish, and its settlements."""

    last_publish: int
    settled: list[DeliveriesSettled]


class TransactionTrace:
    """Settlements of the client's current transaction, and transactions whose end the broker has not answered."""

    __slots__ = ("_context", "_settled", "_under_way")

    def __init__(self, context: ChannelContext[Any]) -> None:
        self._context = context
        self._settled: list[DeliveriesSettled] = []
        self._under_way: list[EndedTransaction] = []  # an empty deque takes ten times as much memory

    @property
    def are_too_many(self) -> bool:
        """Whether more commits and rollbacks are unanswered than `MAX_TRANSACTIONS`."""
        return len(self._under_way) > MAX_TRANSACTIONS

    def add(self, settled: DeliveriesSettled) -> None:
        """Add a settlement of the client to the current transaction."""
        self._settled.append(settled)
        self._context.budgets.spans.left -= len(settled.spans)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is settled in a transaction, and every commit and rollback is answered."""
        return not (self._settled or self._under_way)

    def restore(self, count: int) -> None:
        """Take `count` unanswered commits and rollbacks of unknown transactions."""
        self._under_way = [EndedTransaction(0, []) for _ in range(count)]

    def commit(self, last_publish: int) -> None:
        """End the current transaction with the client's tx.commit."""
        self._end(last_publish, self._settled)

    def roll_back(self, last_publish: int) -> list[DeliveriesSettled]:
        """End the current transaction with the client's tx.rollback; return its settlements, which are void."""
        settled = self._settled
        self._give_back(settled)
        self._end(last_publish, [])
        return settled

    def _end(self, last_publish: int, settled: list[DeliveriesSettled]) -> None:
        self._settled = []
        if self._context.knows_client:
            self._under_way.append(EndedTransaction(last_publish, settled))

    def answered(self) -> EndedTransaction | None:
        """Remove and return the oldest transaction whose end was unanswered: the broker has answered it."""
        if not self._under_way:
            return None
        transaction = self._under_way.pop(0)
        self._give_back(transaction.settled)
        return transaction

    def give_up(self) -> list[DeliveriesSettled]:
        """Forget the settlements that have not taken effect, and return them in order."""
        given_up = [each for transaction in self._under_way for each in transaction.settled] + self._settled
        self._give_back(given_up)
        for transaction in self._under_way:
            transaction.settled.clear()
        self._settled.clear()
        return given_up

    def clear(self) -> list[DeliveriesSettled]:
        """Like `give_up`, and forget the unanswered commits and rollbacks."""
        given_up = self.give_up()
        self._under_way.clear()
        return given_up

    def _give_back(self, settled: list[DeliveriesSettled]) -> None:
        for each in settled:
            self._context.budgets.spans.left += len(each.spans)
