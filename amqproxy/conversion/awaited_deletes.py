"""Deletes of queues whose completion an AMQP 0-10 session waits for: limits see it as queue.delete-ok."""

from __future__ import annotations

from bisect import bisect_left

from amqproxy.amqp010.command_ids import CommandIds, position_of
from amqproxy.amqp010.commands import QueueDelete
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.sequence import is_before
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import QueueDeleteOk

_MASK = 0xFFFF_FFFF

MAX_AWAITED = 4096
"""Deletes of one session; the completion of more is not seen."""


class AwaitedDeletes:
    """The deletes of one session in order, by position."""

    __slots__ = ("_completed", "_positions")

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._completed = CommandIds()
        """Ranges that have one of the positions each, and so are as many at most."""

    def __bool__(self) -> bool:
        return bool(self._positions)

    def note(self, method: Method, position: int) -> None:
        """Note a client's command that goes on."""
        if isinstance(method, QueueDelete) and len(self._positions) < MAX_AWAITED:
            self._positions.append(position)

    def completed_by(self, method: Method) -> int:
        """Number of further deletes that are complete, with all before them.

        A broker may complete a later one first, and need not repeat that.
        """
        positions = self._positions
        if not isinstance(method, SessionCompleted) or method.commands is None or not positions:
            return 0
        for first, last in method.commands.ranges:
            if is_before(last, first):
                continue
            start = position_of(first, positions[0])
            stop = start + ((last - first) & _MASK) + 1
            if bisect_left(positions, start) < bisect_left(positions, stop):
                self._completed.extend(start, stop)
        number = 0
        while number < len(positions) and positions[number] in self._completed:
            number += 1
        if number:
            self._completed.remove(range(self._completed.first or 0, positions[number - 1] + 1))
            del positions[:number]
        if not positions:
            self._completed.clear()
        return number

    def clear(self) -> None:
        """Forget all: the session has ended, and what it had not completed may not have been done."""
        self._positions.clear()
        self._completed.clear()


def delete_answer(channel: int) -> Command:
    """The completion of a delete, as 0-9-1 answers it."""
    return Command(channel, QueueDeleteOk())
