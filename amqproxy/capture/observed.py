"""Reports on a capture: messages with their outcomes, and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec

from amqproxy.amqp091.protocol_header import DECODED
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.peer import CLIENT, Peer
from amqproxy.taps.findings.process_inspector import ProcessInspector
from amqproxy.taps.message_recorder import SelectorOf
from amqproxy.taps.observer import Observer, ObserverSettings, OnEvents, Report
from amqproxy.taps.pending_messages import PendingBudget

MAX_PENDING_BYTES = 1 << 28
"""Bytes of messages without a known outcome, on all connections together."""

ListenerOf: TypeAlias = Callable[[int, str], OnEvents]
"""Returns the listener for the trace events of a connection, given its number and name."""


def observed(
    decoded: Iterable[Decoded],
    settings: ObserverSettings,
    selector_of: SelectorOf | None = None,
    listener_of: ListenerOf | None = None,
) -> Iterator[Report]:
    """Yield the reports on all AMQP connections, in the order in which the outcomes of messages are known.

    The listener that `listener_of` returns for a connection receives the events of its trace.
    """
    observers = Observers(settings, selector_of, listener_of)
    for each in decoded:
        yield from observers.feed(each)


class Observers:
    """The observers of connections, by stream number: of a capture, see `observed`, or of a proxy that it `is_live`.

    All of them share the `process_inspector`, and the `budget` of `memory` bytes, or `MAX_PENDING_BYTES`. Beyond
    `max_observers`, further connections are not observed.
    """

    def __init__(
        self,
        settings: ObserverSettings,
        selector_of: SelectorOf | None = None,
        listener_of: ListenerOf | None = None,
        *,
        is_live: bool = False,
        memory: int | None = None,
        max_observers: int | None = None,
    ) -> None:
        # In a capture, packets may be late, or be retransmissions.
        self._settings = msgspec.structs.replace(settings, is_ordered=is_live)
        self._is_live = is_live
        self._max_observers = max_observers
        self._selector_of = selector_of
        self._listener_of = listener_of
        self.process_inspector = ProcessInspector()
        self.budget = PendingBudget(MAX_PENDING_BYTES if memory is None else memory)
        self.by_stream: dict[int, Observer] = {}

    def feed(self, decoded: Decoded) -> list[Report]:
        """Return the reports that an item completes."""
        observer = self.by_stream.get(decoded.stream)
        if observer is None:
            if isinstance(decoded, StreamEnded):
                return []
            if isinstance(decoded, DecodedProtocolHeader) and decoded.protocol not in DECODED:
                return []
            if self._max_observers is not None and len(self.by_stream) >= self._max_observers:
                return []
            observer = self.by_stream[decoded.stream] = self._observer(decoded.stream, decoded.connection)
        elif isinstance(decoded, StreamEnded):
            del self.by_stream[decoded.stream]
        return _reports(observer, decoded)

    def forget(self) -> list[Observer]:
        """Return all observers, and begin with new ones: anything may have been missed."""
        observers = list(self.by_stream.values())
        self.by_stream.clear()
        return observers

    def _observer(self, stream: int, connection: str) -> Observer:
        return Observer(
            stream,
            connection,
            self._settings,
            selector=self._selector_of(stream, connection) if self._selector_of else None,
            budget=self.budget,
            is_tls=None if self._is_live else False,  # captured traffic that can be read was not encrypted
            process_inspector=self.process_inspector,
            on_events=self._listener_of(stream, connection) if self._listener_of else None,
        )


def _reports(observer: Observer, decoded: Decoded) -> list[Report]:
    match decoded:
        case DecodedFrames():
            before = observer.restore(decoded.snapshot)
            reports = observer.feed(Peer(decoded.sender), decoded.frames, decoded.ts_ns, decoded.note)
            return [*before, *reports] if before else reports
        case DecodedProtocolHeader():
            if decoded.sender != CLIENT:
                return observer.feed_answer(decoded.ts_ns, decoded.data)
            observer.feed_protocol_header(decoded.ts_ns, decoded.protocol)
            return []
        case SkippedBytes():
            return observer.gap(
                Peer(decoded.sender), decoded.ts_ns, decoded.reason, is_other_whole=decoded.is_other_whole
            )
        case StreamEnded():
            return observer.end(decoded.ts_ns, decoded.reason, decoded.stalled_ns, decoded.stalled_until_ns)
