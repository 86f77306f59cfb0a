"""The event loop's time, shared fairly among legs that receive very much at once."""

from __future__ import annotations

from trio.lowlevel import Abort, RaiseCancelT, Task, checkpoint, current_task, reschedule, wait_task_rescheduled

QUANTUM = 0.002
"""Seconds of work on a leg's received bytes, after which all other tasks have their turn."""

ROUND = 0.2
"""Seconds in which every busy leg should have had its turn: with more of them, each turn is shorter."""


LONG = 4 * QUANTUM
"""Seconds of processing one chunk, from which a leg should receive less at a time."""

MOST_TURNS = 16
"""Maximum of turns for which a leg waits: a step may have taken long because the process was not running."""


class TurnQueue:
    """Tasks whose turn is over, in order of arrival: one of them is resumed in each turn of the loop.

    However many wait, the loop soon serves all other tasks: signals, timers, and clients that are not busy.
    """

    __slots__ = ("_has_leader", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Task, None] = {}
        self._has_leader = False

    @property
    def waiting(self) -> int:
        """Number of waiting tasks."""
        return len(self._waiting)

    @property
    def quantum(self) -> float:
        """Seconds of work that each task may do in its turn."""
        count = len(self._waiting)
        return min(QUANTUM, ROUND / count) if count else QUANTUM

    async def wait(self) -> None:
        """Wait for a turn after all other waiting tasks, or for the loop's next turn if there is none."""
        if not self._has_leader:
            self._has_leader = True
            try:
                await checkpoint()
            finally:
                self._admit_next()
            return
        task = current_task()
        self._waiting[task] = None

        def abort(_: RaiseCancelT) -> Abort:
            del self._waiting[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)  # cannot be aborted once admitted, so that it always admits the next task
        self._admit_next()

    def _admit_next(self) -> None:
        """Resume the first waiting task in the loop's next turn."""
        task = next(iter(self._waiting), None)
        if task is None:
            self._has_leader = False
        else:
            del self._waiting[task]
            reschedule(task)


class Turn:
    """The loop time used by one leg.

    While it is idle, it regains its share, as one of those that wait: a client that asks for less than its share never
    waits behind those that ask for more.
    """

    __slots__ = ("_busy", "_queue", "_until")

    def __init__(self, queue: TurnQueue) -> None:
        self._queue = queue
        self._busy = 0.0
        self._until = 0.0

    @property
    def quantum(self) -> float:
        """Seconds of work that a turn lasts."""
        return self._queue.quantum

    def is_over(self, began: float, decided: float, sent: float) -> bool:
        """Count the work on a received chunk, and return whether the turn is over.

        The work `began` at a time of `time.perf_counter`, its output was `decided`, and then `sent`. A send that took
        more than a quantum has waited for the peer.
        """
        ended = sent if sent - decided < QUANTUM else decided
        earned = (began - self._until) / (1 + self._queue.waiting)
        self._busy = max(0.0, self._busy - earned) + ended - began
        self._until = ended
        return self._busy > self._queue.quantum

    async def next(self) -> None:
        """Wait for the next turn; after an indivisible step of several quanta, for as many turns, up to `MOST_TURNS`.

        To decode and patch a JSON body of 1 MB takes 17 ms: a reply for another client would have to wait behind
        several of these.
        """
        # LONG is four quanta
        turns, self._busy = min(MOST_TURNS, max(1, int(4 * self._busy / LONG))), 0.0
        for _ in range(turns):
            await self._queue.wait()
