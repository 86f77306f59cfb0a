"""How much one turn of the loop may do, and the work that does not fit into one.

Code that may have much to do (a million messages that expire, or are rejected or requeued at once) works until the
turn's `Quantum` is used up, and leaves the rest to the `WorkQueue`, which continues it in later turns, one job after
the other, so that other clients are served in between.
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
"""Operations between two looks at the clock: well under a millisecond of the usual ones."""

TURN = 0.0015
"""Seconds that a turn may take. A client may have to wait for three: the one that continues when it sends something,
another client's, and one of what is left to do.
"""

SMALL = 256
"""Things that a container may hold to be freed at once."""

Job = Generator[None, float, Any]
"""Work in steps: it yields where its turn may end, and is sent the time (seconds) when it continues."""

Container = MutableSequence[Any] | set[Any] | dict[Any, Any]

Part = Callable[[float], bool]
"""Does a part of some work, given the time: is there more of it?"""


class Quantum:
    """The operations that are `left` to a turn before it has to look whether it `is_over`.

    Work has to `spend` what it costs. A turn `begin`s with `step`, and is given as many again for as long as the clock
    shows that it has not lasted `seconds`; without a clock it is not.
    """

    __slots__ = ("_clock", "_ends", "_seconds", "_usual_end", "left", "step")

    def __init__(self) -> None:
        self.left = self.step = UNBOUNDED
        self._clock: Callable[[], float] | None = None
        self._seconds = self._ends = self._usual_end = 0.0

    def limit(self, step: int = STEP, seconds: float = TURN, clock: Callable[[], float] | None = None) -> None:
        """From now on turns are bounded."""
        self._clock = clock
        self._seconds = seconds
        self.step = step
        self.begin()

    def begin(self, turns: int = 1) -> None:
        """A turn begins, or so many in one, for as long as nothing has to `hasten`."""
        self.left = self.step
        if self._clock is not None:
            now = self._clock()
            self._usual_end = now + self._seconds
            self._ends = now + turns * self._seconds

    def hasten(self) -> None:
        """What is done is not the usual: this is to be one turn, and no longer."""
        self._ends = self._usual_end

    def spend(self, operations: cython.longlong) -> bool:
        """Take from what is `left`: 1 for what takes about a microsecond. True when the turn is to end."""
        self.left -= operations
        return self.left <= 0 and self.is_over()

    def is_over(self) -> bool:
        """Is the turn to end? Asked when nothing is `left`."""
        if self.left > 0:
            return False
        if self._clock is None or self._clock() >= self._ends:
            return True
        self.left = self.step
        return False


class WorkQueue:
    """What is unfinished, in line: each has a turn's part done, and stands behind the others again.

    `wake` is called when there is something again where there was nothing, `failed` with an exception that ends one
    piece of work and no other.
    """

    def __init__(self, quantum: Quantum | None = None) -> None:
        self.quantum = quantum or Quantum()
        self.wake: Callable[[], None] = lambda: None
        self.failed: Callable[[Exception], None] = _raise
        self._line: deque[Part] = deque()
        self._parts: dict[Hashable, deque[Part]] = {}
        """Of those that have one place in the line for all their work."""
        self._heap: deque[Container] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, part: Part) -> None:
        """Do this in later turns."""
        self._line.append(part)
        if len(self._line) == 1:
            self.wake()

    def add_of(self, owner: Hashable, part: Part) -> None:
        """The same, where all that is of one owner has one place in the line: however much it is, others come first."""
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
        """Do a job: now, as far as this turn goes, and the rest later."""
        steps = Steps(job)
        if steps.go_on(now):
            self.add(steps.go_on)

    def go_on(self, now: float) -> None:
        """A turn for what is unfinished."""
        self.quantum.begin()
        for _ in range(len(self._line)):
            if not self._line:
                break  # what was done there has done the rest
            part = self._line.popleft()
            try:
                if part(now):
                    self._line.append(part)
            except Exception as error:  # noqa: BLE001 - whose work it is has seen to itself
                self.failed(error)
            if self.quantum.is_over():
                break

    # --- containers to be freed

    def free(self, container: Container) -> None:
        """Empty a container that is no longer used: to free a million things at once takes its time too."""
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
    """A job that is done in parts."""

    __slots__ = ("_has_begun", "_job")

    def __init__(self, job: Job) -> None:
        self._job = job
        self._has_begun = False

    def go_on(self, now: float) -> bool:
        """Do a turn's part of it: is there more?"""
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
