"""Source of records for a queue: from frames or observed events, all of them or those that a filter selects."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from amqproxy.process.supervision import contained
from amqproxy.proxy.filtered_tap import FilteredTap
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.message_filter import message_filters_of
from amqproxy.taps.frame_tap import FrameTap
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record_queue import PrintedRecord, RecordQueue
from amqproxy.taps.tap import Tap, TappedSession, present
from amqproxy.taps.trace_tap import TraceTap

OVERDUE_INTERVAL = 1.0
"""Seconds between two checks for messages that have been open for long."""


class RecordSource:
    """Source of records: `tap` puts a record of each frame that it sees, or of `observed` events, into `queue`.

    With `wanted`, only commands that it selects are recorded; it sees bodies of up to `body_limit` bytes. Messages
    that are incomplete or unsettled take at most `memory` bytes. The records of frames contain the first `body` bytes
    of each body frame. `clock` returns the time at which frames have passed, in nanoseconds since 1970. With a
    `frame_tap`, frames are shown to that, and not put into the queue.
    """

    def __init__(
        self,
        queue: RecordQueue[PrintedRecord],
        observed: ObserverSettings | None,
        wanted: Filter | None,
        *,
        memory: int,
        body_limit: int,
        body: int = 0,
        clock: Callable[[], int] = present,
        frame_tap: Tap | None = None,
    ) -> None:
        self.tap: Tap
        self._trace_tap: TraceTap | None = None
        self._filtered: FilteredTap | None = None
        if observed is None:
            self.tap = frame_tap or FrameTap(queue, body=body, clock=clock)
            if wanted is not None:
                self.tap = self._filtered = FilteredTap(self.tap, wanted, memory, body_limit, clock)
            return
        if wanted is not None:
            kept_body = min(CommandFilter.kept_body(wanted), body_limit)
            observed = msgspec.structs.replace(observed, kept_body=kept_body)
        selector_of = None if wanted is None else message_filters_of(wanted)
        self.tap = self._trace_tap = TraceTap(queue, observed, memory=memory, selector_of=selector_of, clock=clock)

    def traces(self, session: TappedSession) -> bool:
        """Return whether there is a trace of the session."""
        return self._trace_tap is not None and self._trace_tap.traces(session)

    def note_gap(self, reason: str) -> None:
        """Record a gap in the frames shown to the tap, after which open messages are unknown."""
        if self._trace_tap is not None:
            self._trace_tap.note_gap(reason)
        if self._filtered is not None:
            self._filtered.note_gap()

    async def report_overdue(self) -> None:
        """Put records of messages that have been open for long. To be called once in each `OVERDUE_INTERVAL`.

        Each turn of the loop checks some connections, so that all sessions are served meanwhile.
        """
        if self._trace_tap is not None:
            with contained("open messages not reported"):
                for _ in self._trace_tap.report_overdue():
                    await trio.lowlevel.checkpoint()
