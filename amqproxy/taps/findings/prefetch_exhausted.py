"""Consumers that have used up their prefetch, and settle nothing."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from amqproxy.amqp091.methods import BasicCancel, BasicConsume, BasicConsumeOk, BasicQos
from amqproxy.taps.credit import INFINITE, MESSAGES, CreditChange
from amqproxy.taps.dialects import credit_change
from amqproxy.taps.findings.detector import NEVER, Detector, ObservedConnection, Overdue, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import ChannelClosed, DeliveriesSettled, MessageDelivered, RequestAnswered, RequestSent

MAX_WINDOWS = 1000
"""Limit on the consumers of one connection whose open deliveries are counted."""

MAX_CHANNELS = 1000
"""Limit on the channels of one connection whose prefetch for later consumers is remembered."""

QUIET = 60
"""Seconds within which a consumer with several open deliveries should settle at least one."""

QUIET_OF_ONE = 300
"""Like `QUIET`, for a consumer with a prefetch of 1, whose only delivery may be a long job."""

SHARED = None
"""Tag that stands for all consumers of a channel, for a global basic.qos."""

Place = tuple[int, str | None]
"""A channel, and the tag of a consumer on it."""


class Window(msgspec.Struct):
    """Prefetch and open deliveries of a consumer; `since_ns` is the time of the last delivery or settlement."""

    prefetch: int
    open: int = 0
    since_ns: int = 0
    is_reported: bool = False

    @property
    def quiet(self) -> int:
        """Seconds after which the consumer counts as stuck."""
        return QUIET if self.prefetch > 1 else QUIET_OF_ONE

    @property
    def due_ns(self) -> int:
        """The time at which the consumer counts as stuck."""
        if self.is_reported or not 0 < self.prefetch <= self.open:
            return NEVER
        return self.since_ns + self.quiet * 1_000_000_000


class PrefetchExhausted(Detector):
    """A consumer has as many deliveries open as its prefetch allows, and settles none of them.

    Where the client gives credit, only in a window: otherwise it gives credit each time anew.
    """

    kind = "prefetch-exhausted"
    severity = Severity.WARNING
    why = "The broker sends a consumer nothing more until it settles something: its queue grows meanwhile."
    remedy = (
        "Settle each delivery, in error paths, too; look for a worker that hangs, or raise the prefetch for slow work."
    )

    def __init__(self, observed: ObservedConnection) -> None:
        super().__init__(observed)
        self._prefetch: dict[int, int] = {}
        self._windows: dict[Place, Window] = {}

    # --- limits

    @on(RequestAnswered, RequestSent)
    def _on_request(self, event: RequestAnswered | RequestSent) -> None:
        channel = event.channel
        match event.request:
            case BasicQos(global_=True, prefetch_count=prefetch):
                known = self.observed.trace.channels.get(channel)
                self._limit((channel, SHARED), prefetch, known.unacked if known else 0)
            case BasicQos(prefetch_count=prefetch) if channel in self._prefetch or len(self._prefetch) < MAX_CHANNELS:
                self._prefetch[channel] = prefetch
            case BasicConsume() as consume if not consume.no_ack:
                reply = event.reply if isinstance(event, RequestAnswered) else None
                tag = reply.consumer_tag if isinstance(reply, BasicConsumeOk) else consume.consumer_tag
                self._limit((channel, tag), self._prefetch.get(channel, 0))
            case request if (change := credit_change(request)) is not None:
                self._give((channel, change.consumer_tag), change)
            case request:
                cancel = equivalent(request)
                if isinstance(cancel, BasicCancel):
                    self._windows.pop((channel, cancel.consumer_tag), None)

    def _give(self, place: Place, change: CreditChange) -> None:
        if change.is_window:
            self._limit(place, 1)
            if place in self._windows:
                self._windows[place].prefetch = 0
        elif change.ends or change.is_window is False:
            self._windows.pop(place, None)
        elif change.unit == MESSAGES and place in self._windows:
            window = self._windows[place]
            window.prefetch += change.given
            if window.prefetch >= INFINITE:
                del self._windows[place]

    def _limit(self, place: Place, prefetch: int, opened: int = 0) -> None:
        self._windows.pop(place, None)
        if prefetch and len(self._windows) < MAX_WINDOWS:
            self._windows[place] = Window(prefetch, opened)

    # --- deliveries

    @on(MessageDelivered)
    def _on_delivered(self, event: MessageDelivered) -> None:
        tag = getattr(event.method, "consumer_tag", None)
        if event.awaits and tag is not None:
            self._count(event.channel, tag, 1, event.ts_ns)

    @on(DeliveriesSettled)
    def _on_settled(self, event: DeliveriesSettled) -> None:
        for span in event.spans:
            if span.consumer_tag is not None:
                self._count(event.channel, span.consumer_tag, -span.count, event.ts_ns)

    def _count(self, channel: int, tag: str, deliveries: int, ts_ns: int) -> None:
        for place in ((channel, tag), (channel, SHARED)):
            window = self._windows.get(place)
            if window is not None:
                window.open = max(0, window.open + deliveries)
                window.since_ns = ts_ns
                window.is_reported = window.is_reported and deliveries > 0
                self.due_ns = min(self.due_ns, window.due_ns)

    @on(ChannelClosed)
    def _on_closed(self, event: ChannelClosed) -> None:
        self._prefetch.pop(event.channel, None)
        self._windows = {place: window for place, window in self._windows.items() if place[0] != event.channel}

    def look(self, now_ns: int) -> Iterable[Overdue]:
        """Report the consumers that have become stuck."""
        found = []
        for (channel, tag), window in self._windows.items():
            due_ns = window.due_ns
            if due_ns <= now_ns:
                window.is_reported = True
                found.append(Overdue(due_ns, channel, self._text(channel, tag, window)))
        self.due_ns = min([window.due_ns for window in self._windows.values()], default=NEVER)
        return found

    def _text(self, channel: int, tag: str | None, window: Window) -> str:
        known = self.observed.trace.channels.get(channel)
        queue = None if tag is None or known is None else known.queue_of(tag)
        who = "the channel's consumers" if tag is None else f"consumer {tag}"
        place = f" of queue {queue}" if queue else ""
        return f"{who}{place} settled nothing for {window.quiet} s: {window.open} open, prefetch {window.prefetch}"
