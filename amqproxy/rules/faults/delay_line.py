"""The bytes that are on their way to a peer while something is done to them; order stays, and nothing is lost in it.

Bytes go in by `put`; `move` returns what to do next, or how long to wait. There is no clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container
from enum import Enum, auto

import msgspec

from amqproxy.rules.faults.impairments import Bandwidth, Cutoff, HalfClose, Latency, Reset, Silence, Slicing, SlowClose
from amqproxy.rules.verdict import Impairment

STEP = 0.05
"""Seconds for which a bandwidth lets bytes go at once."""


class DirectionEnd(Enum):
    """How a direction is to be ended."""

    CLOSE = auto()
    """Both directions, in good order as far as TCP can tell."""
    RESET = auto()
    HALF_CLOSE = auto()


class SendNow(msgspec.Struct, frozen=True):
    """Send these bytes now."""

    data: memoryview


class WaitUntil(msgspec.Struct, frozen=True):
    """Nothing is to be done before `until`, unless something is put in; infinite where there is nothing to wait for."""

    until: float


class ActiveImpairment:
    """An impairment that has begun: until when, and how many bytes a cutoff still lets pass."""

    __slots__ = ("impairment", "left", "since", "until")

    def __init__(self, impairment: Impairment, now: float) -> None:
        self.impairment = impairment
        self.since = now
        self.until = math.inf if impairment.duration is None else now + impairment.duration
        self.left = impairment.size if isinstance(impairment, Cutoff) else 0

    def end(self) -> tuple[float, DirectionEnd] | None:
        """When it ends the connection, and how; the caller checks whether that is before its duration is over."""
        match self.impairment:
            case Reset(after=after):
                return self.since + after, DirectionEnd.RESET
            case HalfClose(after=after):
                return self.since + after, DirectionEnd.HALF_CLOSE
            case Silence(close_after=after) if after:
                return self.since + after, DirectionEnd.CLOSE
            case Cutoff() if not self.left:
                return self.since, DirectionEnd.CLOSE
            case _:
                return None


class DelayLine:
    """One direction. `held` counts the bytes in it; `random` draws from [0, 1).

    Once it has returned an end, it is empty, and takes nothing more.
    """

    __slots__ = ("_active", "_free_at", "_queue", "_random", "_released", "ended", "held")

    def __init__(self, random: Callable[[], float]) -> None:
        self.held = 0
        self.ended: DirectionEnd | None = None
        self._random = random
        self._active: list[ActiveImpairment] = []
        self._queue: deque[tuple[float, memoryview]] = deque()
        self._released = 0.0
        """When what was put in last is let go on; nothing that comes later may be earlier."""
        self._free_at = 0.0
        """When there is room for the next bytes."""

    @property
    def is_idle(self) -> bool:
        """Is nothing done to bytes, so that they can as well go past?"""
        return not self._active and not self._queue and self.ended is None

    @property
    def linger(self) -> float:
        """Seconds by which the end of the connection is to be put off."""
        return sum(each.impairment.delay for each in self._active if isinstance(each.impairment, SlowClose))

    def impair(self, impairment: Impairment, now: float) -> None:
        """Begin to do this to what comes from now on, besides what is being done already."""
        self._active.append(ActiveImpairment(impairment, now))

    def lift(self, kept: Container[str]) -> None:
        """End what rules do that are not among those `kept`; what is late already stays so."""
        self._active = [each for each in self._active if each.impairment.by in kept]
        self._forget_pauses()

    def put(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Take bytes; they must not change."""
        self._expire(now)
        if not data or self.ended is not None:
            return
        delay = 0.0
        for each in self._active:
            if isinstance(each.impairment, Latency):
                delay += max(0.0, each.impairment.delay + each.impairment.jitter * (2 * self._random() - 1))
        self._released = max(self._released, now + delay)
        self._queue.append((self._released, memoryview(data)))
        self.held += len(data)

    def move(self, now: float) -> SendNow | DirectionEnd | WaitUntil:
        """What is to be done next. What it returns counts as passed."""
        self._expire(now)
        if self.ended is not None:
            return WaitUntil(math.inf)
        ends = [end for each in self._active if (end := each.end()) is not None]
        due = min(ends, key=lambda end: end[0], default=None)
        if due is not None and due[0] <= now:
            self._finish(due[1])
            return due[1]
        until = min([each.until for each in self._active], default=math.inf)
        if due is not None:
            until = min(until, due[0])
        if not self._queue or any(isinstance(each.impairment, Silence) for each in self._active):
            return WaitUntil(until)
        ready = max(self._queue[0][0], self._free_at)
        if ready > now:
            return WaitUntil(min(until, ready))
        return SendNow(self._take(now))

    def _take(self, now: float) -> memoryview:
        """As much of what comes next as may pass at once."""
        released, data = self._queue.popleft()
        size, pause = len(data), 0.0
        for each in self._active:
            match each.impairment:
                case Slicing() as slicing:
                    varied = slicing.size + round(slicing.variation * (2 * self._random() - 1))
                    size = min(size, max(1, varied))
                    pause += slicing.pause
                case Bandwidth(rate=rate):
                    size = min(size, max(1, int(rate * STEP)))
                case Cutoff():
                    size = min(size, each.left)
                case _:
                    pass
        for each in self._active:
            if isinstance(each.impairment, Bandwidth):
                pause = max(pause, size / each.impairment.rate)
            each.left -= size if isinstance(each.impairment, Cutoff) else 0
        self._free_at = now + pause
        self.held -= size
        if size < len(data):
            self._queue.appendleft((released, data[size:]))
        return data[:size]

    def _expire(self, now: float) -> None:
        if self._active and any(each.until <= now for each in self._active):
            self._active = [each for each in self._active if each.until > now or _was_due(each, now)]
            self._forget_pauses()

    def _forget_pauses(self) -> None:
        if not any(isinstance(each.impairment, (Bandwidth, Slicing)) for each in self._active):
            self._free_at = 0.0

    def _finish(self, end: DirectionEnd) -> None:
        self.ended = end
        self._active.clear()
        self._queue.clear()
        self.held = 0


def _was_due(active: ActiveImpairment, now: float) -> bool:
    """Was the end that it brings due before its time was up? It may not have been checked in between."""
    end = active.end()
    return end is not None and end[0] <= min(active.until, now)
