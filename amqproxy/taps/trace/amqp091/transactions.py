"""The transactions of one channel: the publishes and the acknowledgements that take effect with tx.commit.

AMQP 0-9-1 section 1.9.
"""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.taps.trace.amqp091.channel_context import ChannelContext
from amqproxy.taps.trace.events import DeliveriesSettled

MAX_TRANSACTIONS = 1024
"""Commits and rollbacks of one channel that may be under way."""


class EndedTransaction(NamedTuple):
    """A transaction whose end was sent: its last publish, and what the client settled in it."""

    last_publish: int
    settled: list[DeliveriesSettled]


class TransactionTrace:
    """What the client settled in its transaction, and the transactions whose end the broker has not answered."""

    __slots__ = ("_context", "_settled", "_under_way")

    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._settled: list[DeliveriesSettled] = []
        self._under_way: list[EndedTransaction] = []  # an empty deque takes ten times as much memory

    @property
    def are_too_many(self) -> bool:
        """Are more ends under way than are remembered?"""
        return len(self._under_way) > MAX_TRANSACTIONS

    def add(self, settled: DeliveriesSettled) -> None:
        """The client has settled deliveries in the transaction."""
        self._settled.append(settled)
        self._context.budgets.spans.left -= len(settled.spans)

    def commit(self, last_publish: int) -> None:
        """The client has sent tx.commit."""
        self._end(last_publish, self._settled)

    def roll_back(self, last_publish: int) -> list[DeliveriesSettled]:
        """The client has sent tx.rollback: what it had settled in the transaction is open again."""
        settled = self._settled
        self._give_back(settled)
        self._end(last_publish, [])
        return settled

    def _end(self, last_publish: int, settled: list[DeliveriesSettled]) -> None:
        self._settled = []
        if self._context.knows_start:
            self._under_way.append(EndedTransaction(last_publish, settled))

    def answered(self) -> EndedTransaction | None:
        """The broker has answered the oldest end that is under way."""
        if not self._under_way:
            return None
        transaction = self._under_way.pop(0)
        self._give_back(transaction.settled)
        return transaction

    def give_up(self) -> list[DeliveriesSettled]:
        """Forget what was settled and has not taken effect, and return it in order."""
        given_up = [each for transaction in self._under_way for each in transaction.settled] + self._settled
        self._give_back(given_up)
        for transaction in self._under_way:
            transaction.settled.clear()
        self._settled.clear()
        return given_up

    def clear(self) -> list[DeliveriesSettled]:
        """The same, and no end is under way any more."""
        given_up = self.give_up()
        self._under_way.clear()
        return given_up

    def _give_back(self, settled: list[DeliveriesSettled]) -> None:
        for each in settled:
            self._context.budgets.spans.left += len(each.spans)
