"""Queue of bytes in transit to a peer while impairments apply; it keeps order and loses nothing.

Bytes enter by `put`; `move` returns the next step, or the time to wait. It reads no clock.
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
"""Seconds of bandwidth that are sent in one piece."""


class DirectionEnd(Enum):
    """Way to end a direction."""

    CLOSE = auto()
    """Close both directions, in good order as far as TCP can tell."""
    RESET = auto()
    HALF_CLOSE = auto()


class SendNow(msgspec.Struct, frozen=True):
    """Step: send these bytes now."""

    data: memoryview


class WaitUntil(msgspec.Struct, frozen=True):
    """Step: do nothing before `until`, unless bytes are put in; infinite if nothing is due."""

    until: float


class ActiveImpairment:
    """An impairment in effect: its end, and the bytes that a cutoff still lets pass."""

    __slots__ = ("impairment", "left", "since", "until")

    def __init__(self, impairment: Impairment, now: float) -> None:
        self.impairment = impairment
        self.since = now
        self.until = math.inf if impairment.duration is None else now + impairment.duration
        self.left = impairment.size if isinstance(impairment, Cutoff) else 0

    def end(self) -> tuple[float, DirectionEnd] | None:
        """Return when and how it ends the connection; the caller compares that with its duration."""
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
    """One direction of a connection. `held` counts the queued bytes; `random` draws from [0, 1).

    Once it has returned an end, it is empty and accepts nothing more.
    """

    __slots__ = ("_active", "_free_at", "_queue", "_random", "_released", "ended", "held")

    def __init__(self, random: Callable[[], float]) -> None:
        self.held = 0
        self.ended: DirectionEnd | None = None
        self._random = random
        self._active: list[ActiveImpairment] = []
        self._queue: deque[tuple[float, memoryview]] = deque()
        self._released = 0.0
        """Release time of the last bytes put in; later bytes are never released earlier."""
        self._free_at = 0.0
        """Time from which the next bytes may be sent."""

    @property
    def is_idle(self) -> bool:
        """Whether no impairment applies, so that bytes can bypass the queue."""
        return not self._active and not self._queue and self.ended is None

    @property
    def linger(self) -> float:
        """Seconds by which the end of the connection is delayed."""
        return sum(each.impairment.delay for each in self._active if isinstance(each.impairment, SlowClose))

    def impair(self, impairment: Impairment, now: float) -> None:
        """Start an impairment of the bytes put in from now on, in addition to those in effect."""
        self._active.append(ActiveImpairment(impairment, now))

    def lift(self, kept: Container[str]) -> None:
        """End the impairments of rules that are not in `kept`; bytes that are delayed already stay so."""
        self._active = [each for each in self._active if each.impairment.by in kept]
        self._forget_pauses()

    def put(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Queue bytes, which must not change."""
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
        """Return the next step; the bytes in it count as passed."""
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
        """Take the bytes that may pass at once."""
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
    """Whether the end that it brings was due within its duration, since it may not have been checked in between."""
    end = active.end()
    return end is not None and end[0] <= min(active.until, now)
