"""Publishes that need no further evaluation, since identical bytes were evaluated before.

The frame reader itself forwards or replaces them; this module fills its cache and collects its counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.pass_cache import CachedPass
from amqproxy.rules.engine.decision_cache import CachedPasses

MAX_UNSEEN = 1024
"""Maximum of methods cached as passing in one direction; beyond, all are forgotten and evaluated again."""

MAX_NEVER_PASSING = 256
"""Maximum of publishes known to need evaluation each time; beyond, they are forgotten and classified again."""


class RepeatedPublishes:
    """The publishes that bypass evaluation on one connection, in the caches of its readers."""

    __slots__ = ("_never_passing", "_passing", "_readers")

    def __init__(self, readers: Iterable[FrameReader]) -> None:
        self._readers = tuple(readers)
        self._passing: list[tuple[CachedPasses, CachedPass]] = []
        self._never_passing: set[bytes] = set()
        """Publishes that need evaluation each time, until `forget` clears the caches."""

    def is_known(self, reader: FrameReader, frame: Frame) -> bool:
        """Whether publishes with this method are classified already."""
        if reader.unseen is None or frame.payload in self._never_passing:
            return True
        passes = reader.unseen.get(frame.payload)
        # A cached publish that was handed over nevertheless may have exhausted an allowance.
        return passes is not None and not any(each.is_over for each in passes.allowances)

    def learn(self, reader: FrameReader, frame: Frame, passing: CachedPasses | None) -> None:
        """Cache publishes with this method as forwarded or replaced; `None`: they need evaluation each time."""
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
        passes = CachedPass(frame.payload, instead, passing.allowances, passing.if_plain, passing.largest)
        reader.unseen.add(passes)
        self._passing.append((passing, passes))

    def settle(self, reader: FrameReader, now: float) -> None:
        """Report what the reader has just spent of allowances to their sources."""
        spending, reader.spending = reader.spending, []
        for allowance in spending:
            allowance.settle(now)

    def count(self) -> None:
        """Flush the hit counts of publishes that bypassed rule evaluation."""
        for passing, passes in self._passing:
            if passes.count:
                passing.count(passes.count)
                passes.count = 0

    def forget(self) -> None:
        """Clear all caches, so that every publish is evaluated again."""
        self.count()
        self._passing.clear()
        self._never_passing.clear()
        for reader in self._readers:
            if reader.unseen:
                reader.unseen.clear()
