"""The steps of one recorded connection of AMQP 0-10, from what a capture decodes to."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp010.assembly import AssemblyReader
from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.peer import CLIENT, Peer
from amqproxy.replay.steps import (
    AssemblySent,
    BytesLost,
    ConnectionEnded,
    ProtocolHeaderSent,
    Step,
    StepBase,
)
from amqproxy.taps.session_trace import SessionTrace
from amqproxy.taps.trace.events import TraceEvent


class Amqp010StepReader:
    """Makes steps of one connection, numbered by `numbers`, in the order of the capture. Heartbeats are none.

    What is malformed, or not whole, counts as bytes that are lost. `events` are what happened with the steps that were
    returned last.
    """

    def __init__(self, stream: int, connection: str, numbers: Iterator[int]) -> None:
        self.events: list[TraceEvent] = []
        self._stream = stream
        self._connection = connection
        self._numbers = numbers
        self._trace = SessionTrace(is_ordered=False)
        self._readers: dict[tuple[Peer, int], AssemblyReader] = {}
        self._steps: list[Step] = []

    def read(self, decoded: Decoded) -> list[Step]:
        """The steps that this completes."""
        ts_ns = decoded.ts_ns
        self.events = []
        match decoded:
            case Amqp010DecodedFrames():
                self.events = self._trace.feed_noted(Peer(decoded.sender), decoded.frames, ts_ns)
                self._take(decoded)
            case DecodedProtocolHeader():
                if decoded.sender == CLIENT:
                    self._trace.feed_protocol_header(ts_ns)
                sender = Peer(decoded.sender)
                self._add(ProtocolHeaderSent, ts_ns, sender=sender, protocol=decoded.protocol, data=decoded.data)
            case SkippedBytes():
                sender = Peer(decoded.sender)
                self.events = self._trace.gap(sender, ts_ns, decoded.reason)
                for place in [place for place in self._readers if place[0] is sender]:
                    del self._readers[place]
                self._add_lost(ts_ns, sender, decoded.lost, decoded.reason)
            case StreamEnded():
                self.events = self._trace.end(ts_ns, decoded.reason)
                by = next((peer for peer in Peer if decoded.reason.startswith(peer)), None)
                is_reset = by is not None and "reset" in decoded.reason
                self._add(ConnectionEnded, ts_ns, by=by, is_reset=is_reset, reason=decoded.reason)
            case _:
                pass
        steps, self._steps = self._steps, []
        return steps

    def _add(self, kind: type[StepBase], ts_ns: int, **fields: object) -> None:
        step = kind(index=next(self._numbers), ts_ns=ts_ns, stream=self._stream, connection=self._connection, **fields)
        self._steps.append(step)  # type: ignore[arg-type]

    def _add_lost(self, ts_ns: int, sender: Peer, lost: int, reason: str) -> None:
        self._add(BytesLost, ts_ns, sender=sender, lost=lost, reason=reason, protocol=AMQP010)

    def _take(self, decoded: Amqp010DecodedFrames) -> None:
        sender = Peer(decoded.sender)
        for frame, command_id in zip(decoded.frames, decoded.command_ids, strict=True):
            if frame.index == ConnectionHeartbeat.index:
                continue
            place = (sender, frame.channel)
            reader = self._readers.get(place)
            if reader is None:
                reader = self._readers[place] = AssemblyReader()
            try:
                assembly = reader.add(frame)
            except ProtocolError as error:
                self._add_lost(decoded.ts_ns, sender, frame.size, error.text)
                continue
            if assembly is not None:
                self._add(AssemblySent, decoded.ts_ns, sender=sender, assembly=assembly, command_id=command_id)
