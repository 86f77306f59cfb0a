"""Deletes of queues whose completion an AMQP 0-10 session waits for: limits see it as queue.delete-ok."""

from __future__ import annotations

from collections import deque

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import QueueDelete
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.methods import Method
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import QueueDeleteOk

MAX_AWAITED = 4096
"""Deletes of one session; the completion of more is not seen."""


class AwaitedDeletes:
    """The deletes of one session in order, by command id."""

    __slots__ = ("_completed", "_ids")

    def __init__(self) -> None:
        self._ids: deque[int] = deque()
        self._completed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._ids)

    def note(self, method: Method, position: int) -> None:
        """Note a client's command that goes on."""
        if isinstance(method, QueueDelete) and len(self._ids) < MAX_AWAITED:
            self._ids.append(id_of(position))

    def completed_by(self, method: Method) -> int:
        """Number of further deletes that are complete, with all before them.

        A broker may complete a later one first, and need not repeat that.
        """
        if not isinstance(method, SessionCompleted) or method.commands is None:
            return 0
        self._completed.update([each for each in self._ids if each in method.commands])
        number = 0
        while self._ids and self._ids[0] in self._completed:
            self._completed.discard(self._ids.popleft())
            number += 1
        return number

    def clear(self) -> None:
        """Forget all: the session has ended, and what it had not completed may not have been done."""
        self._ids.clear()
        self._completed.clear()


def delete_answer(channel: int) -> Command:
    """The completion of a delete, as 0-9-1 answers it."""
    return Command(channel, QueueDeleteOk())
