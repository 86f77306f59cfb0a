"""The transactions of one session: the accepts that take effect with tx.commit. Section 10.3."""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.taps.trace.amqp010.open_transfers import TransferRun
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.events import DeliveriesSettled

MAX_TRANSACTIONS = 1024
"""Commits and rollbacks of one session that may be under way."""


class Accepted(NamedTuple):
    """What the client has accepted in a transaction: the event that there is once it is committed."""

    event: DeliveriesSettled
    runs: list[TransferRun]


class SessionTransactions:
    """What was accepted in the current transaction, and in those whose end the server has not completed."""

    __slots__ = ("_accepted", "_ending", "_spans")

    def __init__(self, spans: Budget) -> None:
        self._spans = spans
        self._accepted: list[Accepted] = []
        self._ending: dict[int, list[Accepted]] = {}

    @property
    def are_too_many(self) -> bool:
        """Are more ends under way than are remembered?"""
        return len(self._ending) > MAX_TRANSACTIONS

    def add(self, accepted: Accepted) -> None:
        """The client accepts in the transaction."""
        self._accepted.append(accepted)
        self._spans.left -= len(accepted.runs)

    def commit(self, position: int) -> None:
        """The client has sent the tx.commit at a position."""
        self._ending[position], self._accepted = self._accepted, []

    def roll_back(self, position: int) -> list[Accepted]:
        """The client has sent the tx.rollback at a position: what it had accepted is open again."""
        accepted, self._accepted = self._accepted, []
        self._ending[position] = []
        self._give_back(accepted)
        return accepted

    def ended(self, position: int) -> list[Accepted]:
        """The server has completed the end at a position: what was accepted in that transaction."""
        accepted = self._ending.pop(position, [])
        self._give_back(accepted)
        return accepted

    def clear(self) -> list[Accepted]:
        """Forget what was accepted and has not taken effect, and return it in order."""
        found = [each for accepted in self._ending.values() for each in accepted] + self._accepted
        self._give_back(found)
        self._ending.clear()
        self._accepted = []
        return found

    def give_up(self) -> list[Accepted]:
        """The same, and the ends under way are still so."""
        found = [each for accepted in self._ending.values() for each in accepted] + self._accepted
        self._give_back(found)
        self._ending = {position: [] for position in self._ending}
        self._accepted = []
        return found

    def _give_back(self, accepted: list[Accepted]) -> None:
        for each in accepted:
            self._spans.left += len(each.runs)
