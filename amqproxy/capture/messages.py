"""What happened in a capture: one record for each message and request, with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_recorder import CommandSelector, MessageRecorder
from amqproxy.taps.trace.connection_trace import Trace
from amqproxy.taps.trace.events import TraceEvent

SelectorOf = Callable[[int, str], CommandSelector | None]
"""Given the stream and the name of a connection, what selects its messages."""


def messages_of(
    decoded: Iterable[Decoded], *, body: int = 0, kept_body: int = 0, selector_of: SelectorOf | None = None
) -> Iterator[MessageRecord]:
    """The records of all connections of AMQP 0-9-1, in the order in which it is known what became of each.

    They contain the first `body` bytes of each body; the selector is given the first `kept_body` bytes.
    """
    observed: dict[int, _ObservedStream] = {}
    for each in decoded:
        stream = observed.get(each.stream)
        if stream is None:
            if isinstance(each, StreamEnded) or (isinstance(each, DecodedProtocolHeader) and each.protocol != NAME):
                continue
            chosen = selector_of(each.stream, each.connection) if selector_of else None
            trace = Trace(body=max(body, kept_body))
            recorder = MessageRecorder(each.stream, each.connection, body=body, selector=chosen)
            stream = observed[each.stream] = _ObservedStream(trace, recorder)
        if isinstance(each, StreamEnded):
            del observed[each.stream]
        elif isinstance(each, DecodedFrames):
            stream.recorder.learn(Peer(each.sender), each.frames)
        yield from stream.recorder.record(_events(stream.trace, each))


class _ObservedStream(NamedTuple):
    trace: Trace
    recorder: MessageRecorder


def _events(trace: Trace, decoded: Decoded) -> list[TraceEvent]:
    match decoded:
        case DecodedFrames():
            return trace.feed(Peer(decoded.sender), decoded.frames, decoded.ts_ns)
        case DecodedProtocolHeader():
            if decoded.sender == CLIENT:
                trace.feed_protocol_header(decoded.ts_ns)
            return []
        case SkippedBytes():
            return trace.gap(Peer(decoded.sender), decoded.ts_ns, decoded.reason)
        case StreamEnded():
            return trace.end(decoded.ts_ns, decoded.reason)
