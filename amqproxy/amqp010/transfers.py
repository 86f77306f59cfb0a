"""Transferred messages that the receiver still holds (section 10.2, "Transfer States")."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp010.command_ids import CommandIds, id_of
from amqproxy.amqp010.domains import AcceptMode, AcquireMode
from amqproxy.amqp010.errors import IllegalState, InvalidArgument, ProtocolError, ResourceLimitExceeded

MAX_RANGES = 65_536
"""Maximum number of non-adjacent ranges of held messages, which limits memory."""


class Transfers:
    """Messages that one peer has transferred on a session and that the other may still refer to.

    `acquired` are those to be accepted, rejected or released, `not_acquired` those to be acquired or released. All
    others are settled. Ranges are of positions. A command is applied as far as possible before an error is raised.
    """

    __slots__ = ("_accepted", "acquired", "not_acquired")

    def __init__(self) -> None:
        self.acquired = CommandIds()
        self.not_acquired = CommandIds()
        self._accepted = CommandIds()

    def add(self, position: int, accept_mode: int, acquire_mode: int) -> None:
        """Note a transfer; one that need not be accepted is settled at once."""
        if accept_mode == AcceptMode.NONE:
            return
        held = self.acquired if acquire_mode == AcquireMode.PRE_ACQUIRED else self.not_acquired
        held.add(range(position, position + 1))
        _bound(held)

    def accept(self, ids: Iterable[range], *, in_transaction: bool) -> None:
        """Process a message.accept, which `roll_back` undoes if it is in a transaction."""
        fault: ProtocolError | None = None
        for each in ids:
            removed = self.acquired.remove(each)
            if in_transaction:
                for part in removed:
                    self._accepted.add(part)
            if self.not_acquired.has_any(each):
                fault = IllegalState(
                    f"{_text(each)} accepted that are not acquired", section="10.2 message.accept, acquisition"
                )
            elif removed != [each]:
                fault = _unknown(each, "10.2 message.accept")
        _bound(self.acquired)
        if fault:
            raise fault

    def reject(self, ids: Iterable[range]) -> None:
        """Process a message.reject; it does not affect messages that are not acquired."""
        fault = None
        for each in ids:
            removed = self.acquired.remove(each)
            if removed != [each] and not self.not_acquired.has_any(each):
                fault = _unknown(each, "10.2 message.reject")
        _bound(self.acquired)
        if fault:
            raise fault

    def release(self, ids: Iterable[range]) -> None:
        """Process a message.release, of acquired or other messages."""
        fault = None
        for each in ids:
            removed = self.acquired.remove(each) + self.not_acquired.remove(each)
            if sum(map(len, removed)) < len(each):
                fault = _unknown(each, "10.2 message.release")
        _bound(self.acquired)
        _bound(self.not_acquired)
        if fault:
            raise fault

    def check_acquire(self, ids: Iterable[range]) -> None:
        """Check that the messages of a message.acquire are held; its result names those that it acquires."""
        for each in ids:
            if not self.not_acquired.has_all(each):
                raise _unknown(each, "10.2 message.acquire")

    def acquire(self, ids: Iterable[range]) -> None:
        """Process the result of a message.acquire."""
        fault = None
        for each in ids:
            removed = self.not_acquired.remove(each)
            for part in removed:
                self.acquired.add(part)
            if removed != [each]:
                fault = _unknown(each, "10.2 message.acquire, one-to-one")
        _bound(self.acquired)
        _bound(self.not_acquired)
        if fault:
            raise fault

    def commit(self) -> None:
        """Commit a transaction: the messages accepted in it are settled."""
        self._accepted.clear()

    def roll_back(self) -> None:
        """Roll back a transaction: the messages accepted in it are acquired again (section 10.3, tx.rollback)."""
        for each in self._accepted:
            self.acquired.add(each)
        self._accepted.clear()


def _unknown(ids: range, section: str) -> InvalidArgument:
    return InvalidArgument(f"{_text(ids)} referred to, which are not held", section=section)


def _bound(held: CommandIds) -> None:
    if held.ranges > MAX_RANGES:
        raise ResourceLimitExceeded(f"more than {MAX_RANGES} ranges of messages held")


def _text(ids: range) -> str:
    return f"transfer {id_of(ids[0])}" if len(ids) == 1 else f"transfers {id_of(ids[0])} to {id_of(ids[-1])}"
