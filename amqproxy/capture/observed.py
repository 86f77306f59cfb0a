"""What happened in a capture: its messages with what became of them, and what an expert would point out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.taps.findings.process_inspector import ProcessInspector
from amqproxy.taps.message_recorder import SelectorOf
from amqproxy.taps.observer import Observer, ObserverSettings, Report


def observed(
    decoded: Iterable[Decoded], settings: ObserverSettings, selector_of: SelectorOf | None = None
) -> Iterator[Report]:
    """The reports on all connections of AMQP 0-9-1, in the order in which it is known what became of each message."""
    settings = msgspec.structs.replace(settings, is_ordered=False)  # packets were captured late, or are sent again
    observers: dict[int, Observer] = {}
    process_inspector = ProcessInspector()
    for each in decoded:
        observer = observers.get(each.stream)
        if observer is None:
            if isinstance(each, StreamEnded) or (isinstance(each, DecodedProtocolHeader) and each.protocol != NAME):
                continue
            selector = selector_of(each.stream, each.connection) if selector_of else None
            # What can be read here was not encrypted.
            observer = Observer(
                each.stream,
                each.connection,
                settings,
                selector=selector,
                is_tls=False,
                process_inspector=process_inspector,
            )
            observers[each.stream] = observer
        yield from _reports(observer, each)
        if isinstance(each, StreamEnded):
            del observers[each.stream]


def _reports(observer: Observer, decoded: Decoded) -> list[Report]:
    match decoded:
        case DecodedFrames():
            return observer.feed(Peer(decoded.sender), decoded.frames, decoded.ts_ns)
        case DecodedProtocolHeader():
            if decoded.sender == CLIENT:
                observer.feed_protocol_header(decoded.ts_ns)
            return []
        case SkippedBytes():
            return observer.gap(Peer(decoded.sender), decoded.ts_ns, decoded.reason)
        case StreamEnded():
            return observer.end(decoded.ts_ns, decoded.reason)
