"""Publishes of which the broker confirms none for a long time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from amqproxy.taps.findings.detector import NEVER, Detector, ObservedConnection, Overdue, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import (
    BlockingEnded,
    BlockingStarted,
    ChannelClosed,
    ConnectionClosed,
    MessagePublished,
    PublishesSettled,
    Settlement,
    StateRestored,
)

QUIET = 30
"""Seconds within which a broker that reads and stores publishes confirms at least one."""

LOOK_NS = 1_000_000_000
"""Nanoseconds between two checks of a broker that has begun to stall."""

MAX_CHANNELS = 10_000
"""Limit on the channels of one connection whose open publishes are counted."""


MAX_BLOCKS = 100
"""Number of times for which a broker said that it was blocked that are kept, the last ones."""


class OpenPublishes(msgspec.Struct):
    """Number of publishes of a channel that await a confirm; `since_ns` is the time of the last confirm.

    The channel's `epoch` tells them from those of a channel that had its number before, whose end is shown later.
    """

    epoch: int
    count: int = 0
    since_ns: int = 0
    is_reported: bool = False

    @property
    def due_ns(self) -> int:
        return NEVER if self.is_reported or not self.count else self.since_ns + QUIET * 1_000_000_000


class StalledConfirms(Detector):
    """Publishes wait for confirms and the broker sends none for long, or it reads none where confirms are off."""

    kind = "stalled-confirms"
    severity = Severity.WARNING
    why = (
        "A broker low on memory or disk reads no publishes, and tells only clients with the capability "
        "connection.blocked; a queue without a leader confirms none either."
    )
    remedy = (
        "Look for alarms (rabbitmqctl status) and for queues whose node is down; have the client announce "
        "connection.blocked, and wait for confirms with a deadline."
    )

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._open: dict[int, OpenPublishes] = {}
        self._is_blocked = False
        self._blocked_ns = 0
        self._blocks: deque[tuple[int, int]] = deque(maxlen=MAX_BLOCKS)
        self._is_stall_reported = False
        self._unconfirmed_ns = NEVER

    @on(BlockingStarted, BlockingEnded)
    def _on_blocking(self, event: BlockingStarted | BlockingEnded) -> None:
        if isinstance(event, BlockingEnded):
            self._blocks.append((self._blocked_ns, event.ts_ns))
        elif not self._is_blocked:
            self._blocked_ns = event.ts_ns
        self._is_blocked = isinstance(event, BlockingStarted)
        for each in self._open.values():
            each.since_ns = event.ts_ns
        self._schedule()

    @on(StateRestored)
    def _on_restored(self, event: StateRestored) -> None:
        self._is_blocked = event.blocked_since_ns is not None

    @on(MessagePublished)
    def _on_published(self, event: MessagePublished) -> None:
        if not event.awaits or event.confirm_tag is None:
            # No event shows that the broker has stopped reading: check later whether this still waits to be sent.
            self._unconfirmed_ns = min(self._unconfirmed_ns, event.ts_ns)
            self.due_ns = min(self.due_ns, event.ts_ns + QUIET * 1_000_000_000)
            return
        found = self._open.get(event.channel)
        if found is None or found.epoch != event.epoch:
            if found is None and len(self._open) >= MAX_CHANNELS:
                return
            found = self._open[event.channel] = OpenPublishes(event.epoch)
        if not found.count:
            found.since_ns = event.ts_ns
            self.due_ns = min(self.due_ns, event.ts_ns + QUIET * 1_000_000_000)
        found.count += 1

    @on(PublishesSettled)
    def _on_settled(self, event: PublishesSettled) -> None:
        found = self._open.get(event.channel)
        if found is None or found.epoch != event.epoch:
            return
        found.count = max(0, found.count - sum(span.count for span in event.spans))
        found.since_ns, found.is_reported = event.ts_ns, False
        if event.outcome in (Settlement.OPEN, Settlement.UNKNOWN) or not found.count:
            del self._open[event.channel]
        else:
            self.due_ns = min(self.due_ns, found.due_ns)

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        found = self._open.get(event.channel)
        if found is not None and found.epoch == event.epoch:
            del self._open[event.channel]

    def look(self, now_ns: int) -> Iterable[Overdue]:
        """Report the channels without a confirm for `QUIET` seconds, or else a stalled broker."""
        found = []
        for channel, publishes in self._open.items():
            due_ns = publishes.due_ns
            if due_ns <= now_ns and not self._is_blocked:
                publishes.is_reported = True
                traced = self.observed.trace.channels.get(channel)
                if traced is None or not traced.has_forgotten:  # else the broker may confirm those that were forgotten
                    found.append(Overdue(due_ns, channel, self._text(publishes.count)))
        self._schedule()
        return found or self._stalled(now_ns)

    def _stalled(self, now_ns: int) -> Iterable[Overdue]:
        """Report a broker that reads none of the client's publishes without confirms."""
        stalled_ns = self.observed.trace.activity.stalled_ns
        if not stalled_ns or self._open:
            self._is_stall_reported = False
            return
        if text := self._stall_text():
            yield Overdue(now_ns, None, text)
        self.due_ns = min(self.due_ns, now_ns + LOOK_NS)

    @on(ConnectionClosed)
    def _on_ended(self, event: ConnectionClosed) -> str | None:
        """Report a broker that stalls, or has stalled, when a capture's connection ends: it is shown only then."""
        until_ns = self.observed.trace.activity.stalled_until_ns or event.ts_ns
        return self._stall_text() if self._unconfirmed_ns < until_ns and not self._open else None

    def _stall_text(self) -> str | None:
        activity = self.observed.trace.activity
        stalled_ns, until_ns = activity.stalled_ns, activity.stalled_until_ns
        is_announced = self._was_blocked(until_ns - stalled_ns, until_ns) if until_ns else self._is_blocked
        if stalled_ns < QUIET * 1_000_000_000 or is_announced or self._is_stall_reported:
            return None
        self._is_stall_reported = True
        said, wait = ("read", "waited") if until_ns else ("has read", "wait")
        return f"the broker {said} nothing for {stalled_ns / 1e9:.0f} s, while publishes {wait} to be sent{self._lacks}"

    def _was_blocked(self, from_ns: int, to_ns: int) -> bool:
        """Whether the broker said within a time that it was blocked, or may have: older times are forgotten."""
        if len(self._blocks) == MAX_BLOCKS and from_ns < self._blocks[0][0]:
            return True
        if self._is_blocked and self._blocked_ns < to_ns:
            return True
        return any(begin < to_ns and end > from_ns for begin, end in self._blocks)

    def _schedule(self) -> None:
        due = [] if self._is_blocked else [each.due_ns for each in self._open.values()]
        self.due_ns = min(due, default=NEVER)

    def _text(self, count: int) -> str:
        return f"the broker confirmed nothing for {QUIET} s, with {count} publishes open{self._lacks}"

    @property
    def _lacks(self) -> str:
        is_told = self.observed.trace.facts.has_capability("connection.blocked")
        return "" if is_told is not False else ", and the client lacks the capability connection.blocked"
