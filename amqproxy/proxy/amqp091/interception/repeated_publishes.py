"""Publishes that rules need not be asked about again, since the same bytes were evaluated before.

They are passed, or replaced, by the frame reader itself; here is what fills its cache, and what is counted of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.pass_cache import CachedPass
from amqproxy.proxy.interception.session_rules import CachedPassing

MAX_UNSEEN = 1024
"""Methods of one direction that are known to pass; beyond, all are forgotten and evaluated again."""

MAX_NEVER_PASSING = 256
"""Publishes that are known to have to be evaluated each time; beyond, all are asked about again."""


class RepeatedPublishes:
    """Which publishes pass unseen on one connection, in the caches of its readers."""

    __slots__ = ("_never_passing", "_passing", "_readers")

    def __init__(self, readers: Iterable[FrameReader]) -> None:
        self._readers = tuple(readers)
        self._passing: list[tuple[CachedPassing, CachedPass]] = []
        self._never_passing: set[bytes] = set()
        """Publishes that have to be evaluated each time, for as long as the evaluator sees them as it does."""

    def is_known(self, reader: FrameReader, frame: Frame) -> bool:
        """Is nothing to be learned of publishes like this one?"""
        if reader.unseen is None or frame.payload in self._never_passing:
            return True
        passes = reader.unseen.get(frame.payload)
        # Where it is known, and came all the same, there may not be enough left of what it takes.
        return passes is not None and not any(each.is_over for each in passes.allowances)

    def learn(self, reader: FrameReader, frame: Frame, passing: CachedPassing | None) -> None:
        """Publishes like this one pass, or become alike; None: they have to be evaluated each time."""
        if reader.unseen is None:
            return
        if passing is None:
            if len(self._never_passing) >= MAX_NEVER_PASSING:
                self._never_passing.clear()
            self._never_passing.add(frame.payload)
            return
        if len(self._passing) >= MAX_UNSEEN:
            self.forget()
        instead = None if passing.method is None else passing.method.encode()
        passes = CachedPass(frame.payload, instead, passing.allowances, passing.if_plain)
        reader.unseen.add(passes)
        self._passing.append((passing, passes))

    def settle(self, reader: FrameReader, now: float) -> None:
        """Have those know by whom allowances are filled what has just been spent of them."""
        spending, reader.spending = reader.spending, []
        for allowance in spending:
            allowance.settle(now)

    def count(self) -> None:
        """Let the rules have counted what has passed unseen so far."""
        for passing, passes in self._passing:
            if passes.count:
                passing.count(passes.count)
                passes.count = 0

    def forget(self) -> None:
        """Have every publish evaluated again."""
        self.count()
        self._passing.clear()
        self._never_passing.clear()
        for reader in self._readers:
            if reader.unseen:
                reader.unseen.clear()
