"""Queue deletes whose completion an AMQP 0-10 session awaits; limits see it as queue.delete-ok."""

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
"""Maximum number of deletes per session; the completion of further ones is not seen."""


class AwaitedDeletes:
    """Deletes of one session in order, by position."""

    __slots__ = ("_completed", "_positions")

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._completed = CommandIds()
        """Ranges that each contain one of the positions, so that there are at most as many."""

    def __bool__(self) -> bool:
        return bool(self._positions)

    def note(self, method: Method, position: int) -> None:
        """Note a forwarded client command."""
        if isinstance(method, QueueDelete) and len(self._positions) < MAX_AWAITED:
            self._positions.append(position)

    def completed_by(self, method: Method) -> int:
        """Return the number of deletes that are newly complete, together with all before them.

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
        """Forget all deletes: the session has ended, and uncompleted ones may not have been executed."""
        self._positions.clear()
        self._completed.clear()


def delete_answer(channel: int) -> Command:
    """Return the 0-9-1 answer to a delete."""
    return Command(channel, QueueDeleteOk())
