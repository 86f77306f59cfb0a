"""Bounds for the work of one turn of the event loop, and a queue for the work beyond them.

Code with a large amount of work (a million messages that expire, or are rejected or requeued at once) runs until the
turn's `Quantum` is spent, and leaves the rest to the `WorkQueue`, which continues it in later turns, one job after the
other, so that other clients are served in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, MutableSequence
from functools import partial
from typing import Any

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

UNBOUNDED = 1 << 62

STEP = 64
"""Operations between two reads of the clock; usually well under a millisecond of work."""

TURN = 0.0015
"""Time limit of a turn in seconds.

A client may have to wait for three turns: the one in progress when it sends something, another client's, and one of the
work queue.
"""

SMALL = 256
"""Number of items up to which a container is freed at once."""

Job = Generator[None, float, Any]
"""Generator of work in steps: it yields where its turn may end, and is sent the time (seconds) when it continues."""

Container = MutableSequence[Any] | set[Any] | dict[Any, Any]

Part = Callable[[float], bool]
"""Function that does one turn's part of some work, given the time, and returns whether work remains."""


class Quantum:
    """The operations `left` in a turn before it must check whether it `is_over`.

    Work must `spend` its cost. A turn `begin`s with `step` operations, and gets as many again as long as the clock
    shows that it has lasted less than `seconds`; without a clock it gets no more.
    """

    __slots__ = ("_clock", "_ends", "_seconds", "_usual_end", "left", "step")

    def __init__(self) -> None:
        self.left = self.step = UNBOUNDED
        self._clock: Callable[[], float] | None = None
        self._seconds = self._ends = self._usual_end = 0.0

    def limit(self, step: int = STEP, seconds: float = TURN, clock: Callable[[], float] | None = None) -> None:
        """Bound the turns, beginning with the current one."""
        self._clock = clock
        self._seconds = seconds
        self.step = step
        self.begin()

    def begin(self, turns: int = 1) -> None:
        """Begin a turn that may last as long as `turns` turns, unless `hasten` shortens it."""
        self.left = self.step
        if self._clock is not None:
            now = self._clock()
            self._usual_end = now + self._seconds
            self._ends = now + turns * self._seconds

    def hasten(self) -> None:
        """Limit the current turn to the length of one turn, because of unusually expensive work."""
        self._ends = self._usual_end

    def spend(self, operations: cython.longlong) -> bool:
        """Deduct operations of about a microsecond each from `left`; return whether the turn must end."""
        self.left -= operations
        return self.left <= 0 and self.is_over()

    def is_over(self) -> bool:
        """Whether the turn must end; renews `left` if it was spent and time remains."""
        if self.left > 0:
            return False
        if self._clock is None or self._clock() >= self._ends:
            return True
        self.left = self.step
        return False


class WorkQueue:
    """Round-robin queue of unfinished work: each part runs for a turn and then moves to the end.

    `wake` is called when the first work is added to an empty queue, `failed` with an exception, which ends only the
    work that raised it.
    """

    def __init__(self, quantum: Quantum | None = None) -> None:
        self.quantum = quantum or Quantum()
        self.wake: Callable[[], None] = lambda: None
        self.failed: Callable[[Exception], None] = _raise
        self._line: deque[Part] = deque()
        self._parts: dict[Hashable, deque[Part]] = {}
        """Parts of the owners that have one place in the line for all their work."""
        self._heap: deque[Container] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, part: Part) -> None:
        """Run this part in later turns."""
        self._line.append(part)
        if len(self._line) == 1:
            self.wake()

    def add_of(self, owner: Hashable, part: Part) -> None:
        """Run this part in later turns, with one place in the line for all parts of the same owner."""
        parts = self._parts.get(owner)
        if parts is None:
            self._parts[owner] = parts = deque()
            self.add(partial(self._go_on_of, owner))
        parts.append(part)

    def _go_on_of(self, owner: Hashable, now: float) -> bool:
        parts = self._parts[owner]
        part = parts.popleft()
        try:
            if part(now):
                parts.append(part)
        except Exception as error:  # noqa: BLE001 - as below
            self.failed(error)
        if not parts:
            del self._parts[owner]
        return bool(parts)

    def do(self, job: Job, now: float) -> None:
        """Run a job in this turn, and continue it in later turns if it does not finish."""
        steps = Steps(job)
        if steps.go_on(now):
            self.add(steps.go_on)

    def go_on(self, now: float) -> None:
        """Run a turn of the unfinished work."""
        self.quantum.begin()
        for _ in range(len(self._line)):
            if not self._line:
                break  # a part may have finished the remaining work
            part = self._line.popleft()
            try:
                if part(now):
                    self._line.append(part)
            except Exception as error:  # noqa: BLE001 - the owner of the work handles its state
                self.failed(error)
            if self.quantum.is_over():
                break

    # --- containers to be freed

    def free(self, container: Container) -> None:
        """Empty a large unused container in steps, because freeing a million objects at once takes long."""
        if self.quantum.step != UNBOUNDED and len(container) > min(SMALL, self.quantum.step):
            self._heap.append(container)
            if len(self._heap) == 1:
                self.add(self._free)

    def _free(self, now: float) -> bool:
        quantum, heap = self.quantum, self._heap
        while heap:
            container = heap[0]
            take = container.popitem if isinstance(container, dict) else container.pop
            while container:
                take()
                if quantum.spend(1):
                    return True
            heap.popleft()
        return False


class Steps:
    """A job that runs in steps."""

    __slots__ = ("_has_begun", "_job")

    def __init__(self, job: Job) -> None:
        self._job = job
        self._has_begun = False

    def go_on(self, now: float) -> bool:
        """Run the job's next step; return whether work remains."""
        try:
            if self._has_begun:
                self._job.send(now)
            else:
                self._has_begun = True
                next(self._job)
        except StopIteration:
            return False
        return True


def _raise(error: Exception) -> None:
    raise error
