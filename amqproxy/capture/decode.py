"""A capture, decoded: what passed on every AMQP connection in it, in the order of the wire."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

from amqproxy.amqp091.tally import Tally
from amqproxy.capture.conversation import Conversation
from amqproxy.capture.decoded import Decoded, StreamEnded, records_of
from amqproxy.capture.files import name_of, read_packets
from amqproxy.capture.packets import Dissector
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Closed, Data, Event, Gap, StreamEnd
from amqproxy.capture.warnings import CaptureWarning, OnWarning, WarningKind, ignore_warning
from amqproxy.taps.record import Record

_REASONS = {
    StreamEnd.FIN: "closed without connection.close",  # and who did it first, as the proxy says it
    StreamEnd.RST: "reset by the peer",
    StreamEnd.REUSED: "another connection has the same ports",
    StreamEnd.FORGOTTEN: "there were too many streams at once, and it was forgotten",
    StreamEnd.END: "the capture ends",
}


class Decoder:
    """The AMQP in TCP streams. `ignored` counts the streams in which there was none."""

    def __init__(self) -> None:
        self.ignored = 0
        self._talks: dict[int, Conversation] = {}
        self._ends: dict[int, str] = {}
        self._tally = Tally()

    def feed(self, event: Event) -> list[Decoded]:
        """What an event of reassembly completes."""
        passed: list[Decoded] = []
        if isinstance(event, Data):
            talk = self._talks.get(event.stream)
            if talk is not None:
                talk.data(event.direction, event.ts_ns, event.data, passed)
        elif isinstance(event, Gap):
            talk = self._talks.get(event.stream)
            if talk is not None:
                talk.gap(event.direction, event.ts_ns, event.lost)
        elif isinstance(event, Closed):
            self._end(event, passed)
        else:
            self._talks[event.stream] = Conversation(event, self._tally)
        return passed

    def is_hopeless(self, stream: int) -> bool:
        """Whether a stream turned out to be no AMQP; it is then forgotten."""
        talk = self._talks.get(stream)
        if talk is None or not talk.is_hopeless:
            return False
        del self._talks[stream]
        self._ends.pop(stream, None)
        self.ignored += 1
        return True

    def _end(self, event: Closed, passed: list[Decoded]) -> None:
        talk = self._talks.get(event.stream)
        if talk is None:
            return
        talk.end(event.direction, event.ts_ns, event.ending, passed)
        reason = _REASONS[event.ending]
        if event.ending in (StreamEnd.FIN, StreamEnd.RST):
            reason = self._ends.setdefault(event.stream, f"{talk.sender(event.direction)} {reason}")
        if talk.is_over:
            del self._talks[event.stream]
            self._ends.pop(event.stream, None)
            self.ignored += not talk.is_reported
            if talk.is_reported:
                passed.append(StreamEnded(event.ts_ns, event.stream, talk.connection, reason))


def read_decoded(source: str | os.PathLike[str] | BinaryIO, notify: OnWarning = ignore_warning) -> Iterator[Decoded]:
    """What passed in a capture: a path, `-` for standard input, or a stream."""
    name = name_of(source)
    dissector, reassembler, decoder = Dissector(name, notify), Reassembler(name, notify), Decoder()
    for packet in read_packets(source, notify):
        segment = dissector.segment(packet)
        if segment is None:
            continue
        for event in reassembler.feed(segment):
            passed = decoder.feed(event)
            if passed:
                yield from passed
            elif decoder.is_hopeless(event.stream):
                reassembler.ignore(event.stream)
    for event in reassembler.finish():
        yield from decoder.feed(event)
    dissector.finish()
    if decoder.ignored:
        text = f"{decoder.ignored} TCP streams without AMQP were left out"
        notify(CaptureWarning(WarningKind.IGNORED, name, -1, text))


def read_records(source: str | os.PathLike[str] | BinaryIO, notify: OnWarning = ignore_warning) -> Iterator[Record]:
    """The records of a capture, one a frame: what `decode --json` prints."""
    return chain.from_iterable(map(records_of, read_decoded(source, notify)))
