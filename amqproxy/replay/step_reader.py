"""Reading of one recorded connection's steps from a decoded capture: the part that all protocols share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.peer import CLIENT, Peer
from amqproxy.replay.steps import ConnectionEnded, ConnectionRestored, ProtocolHeaderSent, Step, StepBase
from amqproxy.taps.session_trace import SessionTrace
from amqproxy.taps.trace.events import TraceEvent


class StepReader(ABC):
    """Reader of one connection's steps, numbered by `numbers`, without heartbeats.

    `on_frame` is called with frames in the order that the trace finds for the two directions, which a capture may have
    interleaved wrongly. `events` are the trace's events for the steps that were returned last.
    """

    def __init__(
        self,
        stream: int,
        connection: str,
        numbers: Iterator[int],
        *,
        on_frame: Callable[[Peer, Any, int], None] | None = None,
    ) -> None:
        self.events: list[TraceEvent] = []
        self._stream = stream
        self._connection = connection
        self._numbers = numbers
        self._trace = SessionTrace(is_ordered=False, on_frame=on_frame)
        self._steps: list[Step] = []
        self._has_begun = False

    def read(self, decoded: Decoded) -> list[Step]:
        """Return the steps that a decoded part of the capture completes."""
        ts_ns = decoded.ts_ns
        match decoded:
            case DecodedProtocolHeader():
                sender = Peer(decoded.sender)
                if sender is CLIENT:
                    self._trace.feed_protocol_header(ts_ns)
                self.events = []
                self._add(ProtocolHeaderSent, ts_ns, sender=sender, protocol=decoded.protocol, data=decoded.data)
            case SkippedBytes():
                self.events = self._trace.gap(
                    Peer(decoded.sender), ts_ns, decoded.reason, is_other_whole=decoded.is_other_whole
                )
                self._skip(decoded)
            case StreamEnded():
                self.events = self._trace.end(ts_ns, decoded.reason)
                self._cut_all(ts_ns)
                by = next((peer for peer in Peer if decoded.reason.startswith(peer)), None)
                is_reset = by is not None and "reset" in decoded.reason
                self._add(ConnectionEnded, ts_ns, by=by, is_reset=is_reset, reason=decoded.reason)
            case DecodedFrames():
                snapshot = decoded.snapshot
                if snapshot is not None and snapshot.protocol == decoded.protocol and not self._has_begun:
                    self._add(ConnectionRestored, snapshot.ts_ns, snapshot=snapshot)
                self.events = self._trace.restore(snapshot)
                self.events += self._trace.feed_noted(Peer(decoded.sender), decoded.frames, ts_ns)
                self._take_packet(decoded)
        self._has_begun = True
        steps, self._steps = self._steps, []
        return steps

    def _add(self, kind: type[StepBase], ts_ns: int, **fields: object) -> None:
        step: Any = kind(
            index=next(self._numbers), ts_ns=ts_ns, stream=self._stream, connection=self._connection, **fields
        )
        self._steps.append(step)

    def _take_packet(self, decoded: Any) -> None:  # noqa: B027 - readers with `on_frame` have nothing to do
        """Take the frames of one packet."""

    @abstractmethod
    def _skip(self, skipped: SkippedBytes) -> None:
        """Take bytes that are not frames, or that are lost."""

    def _cut_all(self, ts_ns: int) -> None:  # noqa: B027 - only some protocols report partial contents
        """Report partial contents at the end of the connection."""
