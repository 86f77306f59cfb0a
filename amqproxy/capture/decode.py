"""Decoded captures: the traffic of every AMQP connection, in the order of the wire."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from msgspec.structs import replace

from amqproxy.amqp091.tally import Tally
from amqproxy.capture.byte_window import OnRead, ignore_read, ignore_secrets
from amqproxy.capture.conversation import Conversation
from amqproxy.capture.decoded import Decoded, StreamEnded
from amqproxy.capture.files import CaptureFile, Sources, files_of, name_of
from amqproxy.capture.packet_comment import added_comments, end_of, note_of, tells_loss, violation_of
from amqproxy.capture.packet_snapshot import snapshot_of
from amqproxy.capture.packets import LINK_TYPES, Dissector
from amqproxy.capture.pcap import Packet
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.second_engine import SecondEngine
from amqproxy.capture.session_numbers import SessionNumbers
from amqproxy.capture.share import Share
from amqproxy.capture.stream_events import Closed, Data, Event, Gap, Opened, StreamEnd
from amqproxy.capture.warnings import CaptureWarning, OnWarning, WarningKind, ignore_warning
from amqproxy.peer import SERVER
from amqproxy.taps.note import NOTHING, Note

BOTH_LEGS = "both"

MAX_COMMENTS = 100
"""Maximum number of comments that are kept for a frame: a frame can be in many packets, each with comments."""

CAPTURE_ENDS = "the capture ends"
"""Reason for the end of a stream that has not ended by itself."""

FORGOTTEN = "there were too many streams at once, and it was forgotten"
"""Reason for the end of a stream that goes on unread."""

PORTS_REUSED = "another connection has the same ports"
"""Reason for the end of a stream whose own end is not in the capture."""

_REASONS = {
    StreamEnd.FIN: "closed without connection.close",  # prefixed with the end that closed first
    StreamEnd.RST: "reset the connection",
    StreamEnd.REUSED: PORTS_REUSED,
    StreamEnd.FORGOTTEN: FORGOTTEN,
    StreamEnd.END: CAPTURE_ENDS,
}


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class Decoder:
    """Decoder of the AMQP connections in TCP streams; `ignored` counts the streams without AMQP."""

    ignored: int = cython.declare(cython.longlong, visibility="readonly")
    _talks: dict[int, Conversation]
    _first_ends: dict[int, Closed]
    _recorded_ends: dict[int, str]
    _stalls: dict[int, tuple[int, int]]
    _comments: dict[tuple[int, int], tuple[str, ...]]
    _last_opened: Opened | None
    _tally: Tally
    _share: object
    _number_of: object

    def __init__(self, share: Share | None = None, number_of: Callable[[Opened], int] | None = None) -> None:
        """Decode a `share` of the streams, whose numbers are those of `number_of`, else by their order."""
        self.ignored = 0
        self._number_of = number_of
        self._share = share
        self._talks = {}
        self._first_ends = {}
        self._recorded_ends = {}
        self._stalls = {}
        self._comments = {}
        self._last_opened = None
        self._tally = Tally()

    @cython.ccall
    def feed(self, event: Event) -> list[Decoded]:
        """Return the items completed by one reassembly event."""
        passed: list[Decoded] = []
        data: Data
        if isinstance(event, Data):
            data = event
            talk = self._talks.get(data.stream)
            if talk is not None:
                note = NOTHING
                if data.comments or self._comments:
                    note = self._commented(data.stream, data.direction, note_of(data.comments), data.comments)
                    snapshot = snapshot_of(data.comments)
                    if snapshot is not None:
                        talk.restore(snapshot)
                    violation = violation_of(data.comments)
                    if violation is not None and talk.violation(
                        data.direction, data.ts_ns, data.data, violation, passed
                    ):
                        return passed
                talk.data(data.direction, data.ts_ns, data.data, passed, note)
                if note.comments and not passed:
                    self._comments[data.stream, data.direction] = note.comments
        elif isinstance(event, Gap):
            talk = self._talks.get(event.stream)
            if talk is not None:
                note = note_of(event.comments) if event.comments else NOTHING  # of the packet behind the gap
                if self._comments:
                    note = self._commented(event.stream, event.direction, note)
                is_whole = event.comments != () and tells_loss(event.comments)
                talk.gap(event.direction, event.ts_ns, event.lost, passed, note, is_whole)
        elif isinstance(event, Closed):
            self._end(event, passed)
        else:
            opened = event
            if self._number_of is not None:
                opened = replace(event, stream=self._number_of(event))  # type: ignore[operator]
            if self._share is None or self._share.takes(event.stream):  # type: ignore[attr-defined]
                self._talks[event.stream] = Conversation(opened, self._tally)
        return passed

    def _commented(self, stream: int, direction: int, note: Note, comments: tuple[str, ...] = ()) -> Note:
        """Return a packet's note, with its `comments`, and those on earlier packets of a frame that it may complete."""
        found = (*self._comments.pop((stream, direction), ()), *added_comments(comments))
        return note._replace(comments=tuple(dict.fromkeys(found))[:MAX_COMMENTS]) if found else note

    def opened(self, stream: int) -> Opened | None:
        """Return the beginning of a stream that is open, or was the last to end."""
        talk = self._talks.get(stream)
        if talk is not None:
            return talk.opened
        return self._last_opened if self._last_opened is not None and self._last_opened.stream == stream else None

    def is_hopeless(self, stream: int) -> bool:
        """Whether a stream turned out not to be AMQP; it is then forgotten."""
        talk = self._talks.get(stream)
        if talk is None or not talk.is_hopeless:
            return False
        del self._talks[stream]
        self._forget_comments(stream)
        self._first_ends.pop(stream, None)
        self._recorded_ends.pop(stream, None)
        self._stalls.pop(stream, None)
        self.ignored += 1
        return True

    def _forget_comments(self, stream: int) -> None:
        for direction in (0, 1):
            self._comments.pop((stream, direction), None)

    def _end(self, event: Closed, passed: list[Decoded]) -> None:
        talk = self._talks.get(event.stream)
        if talk is None:
            return
        talk.end(event.direction, event.ts_ns, event.ending, passed)
        if event.comments and (recorded := end_of(event.comments)):
            self._recorded_ends[event.stream] = recorded
        if event.stalled_ns and talk.sender(event.direction) == SERVER:
            self._stalls[event.stream] = event.stalled_ns, event.stalled_until_ns
        if event.ending in (StreamEnd.FIN, StreamEnd.RST):
            self._first_ends.setdefault(event.stream, event)
        if talk.is_over:
            del self._talks[event.stream]
            self._forget_comments(event.stream)
            self._last_opened = talk.opened
            first = self._first_ends.pop(event.stream, None)
            if first is None:
                reason = _REASONS[event.ending]
            else:  # the other direction ended as a consequence
                reason = f"{talk.sender(first.direction)} {_REASONS[first.ending]}"
            reason = self._recorded_ends.pop(event.stream, reason)
            stall = self._stalls.pop(event.stream, (0, 0))
            self.ignored += not talk.is_reported
            if talk.is_reported:
                passed.append(StreamEnded(event.ts_ns, talk.opened.stream, talk.connection, reason, talk.leg, *stall))


def read_decoded(
    sources: Sources,
    notify: OnWarning = ignore_warning,
    on_read: OnRead = ignore_read,
    *,
    leg: str = "client",
    engine: SecondEngine | None = None,
    share: Share | None = None,
    by_session: bool = False,
    merges_legs: bool = False,
) -> Iterator[Decoded]:
    """Yield the decoded traffic of a capture of one or more files: paths, directories, `-` for standard input, streams.

    The options are those of `CaptureReading`.
    """
    name = name_of(sources)
    reading = CaptureReading(
        name, notify, leg=leg, engine=engine, share=share, by_session=by_session, merges_legs=merges_legs
    )
    for file in files_of(sources):
        yield from reading.decoded(file, on_read)
    yield from reading.finish()


class CaptureReading:
    """Reads the files of one capture in sequence.

    TCP streams continue from file to file, and are numbered across them. A file that begins before the end of the
    previous one was captured concurrently: if it holds the beginning of a known stream, that is a different stream. In
    a recording of the proxy, only the traffic of one `leg` of its sessions, "client" or "upstream", is read, or of
    "both". A second `engine` reads input that amqproxy does not. With a `share`, only that part is decoded. With
    `by_session`, connections have the numbers of the proxy that recorded them, and so has the upstream leg if this
    `merges_legs`. `name` is the capture's name in warnings.

    After a `CaptureError` in one file, the next one can still be read. Between two files, all state of the streams is
    in this object, and can be pickled, except for `notify`, `engine` and `share`: see `resumed`.
    """

    def __init__(
        self,
        name: str,
        notify: OnWarning = ignore_warning,
        *,
        leg: str = "client",
        engine: SecondEngine | None = None,
        share: Share | None = None,
        by_session: bool = False,
        merges_legs: bool = False,
    ) -> None:
        self._name = name
        self._notify = notify
        self._leg = leg
        self._engine = engine
        self._share = share
        self._left_out: Counter[str] = Counter()
        # The engine reads what the dissector cannot, or has a warning of its own.
        self._dissector = Dissector(name, notify if engine is None else _but_for_link_types(notify))
        self._reassembler = Reassembler(name, notify)
        self._decoder = Decoder(share, SessionNumbers(merges_legs=merges_legs).number if by_session else None)
        self.last_ns = 0
        """The time of the last packet read."""

    def decoded(self, file: CaptureFile, on_read: OnRead = ignore_read) -> Iterator[Decoded]:
        """Yield the items completed by the packets of the next file."""
        engine, share, leg, left_out = self._engine, self._share, self._leg, self._left_out
        dissector, reassembler, decoder = self._dissector, self._reassembler, self._decoder
        packet: Packet
        events: Iterable[Event]
        packets = file.packets(self._notify, on_read, ignore_secrets if engine is None else engine.add_secrets)
        first = next(packets, None)
        if first is None:
            return
        if first.ts_ns < self.last_ns:
            reassembler.begin_capture()
        packets = chain([first], packets)
        is_readable = engine is None
        while True:
            for packet in packets:
                self.last_ns = packet.ts_ns
                if share is not None:
                    share.position += 1
                if packet.leg and packet.leg != leg and leg != BOTH_LEGS:
                    left_out[packet.leg] += 1
                    continue
                segment = dissector.segment(packet)
                if segment is None:
                    if not is_readable and packet.link_type not in LINK_TYPES:
                        break
                    continue
                events = reassembler.feed(segment)
                if engine is not None and engine.is_decrypting:
                    events = engine.feed(events)
                for event in events:
                    passed = decoder.feed(event)
                    if passed:
                        if share is None or share.is_shown():
                            yield from passed
                    elif decoder.is_hopeless(event.stream):
                        reassembler.ignore(event.stream)
            else:
                return
            if engine is not None:
                packets = engine.packets(chain([packet], packets))
            is_readable = True

    def opened(self, stream: int) -> Opened | None:
        """Return the beginning of a stream of which an item was just decoded."""
        return self._decoder.opened(stream)

    def finish(self) -> Iterator[Decoded]:
        """Yield the remaining items at the end of the capture."""
        engine, share, decoder = self._engine, self._share, self._decoder
        if share is not None:
            share.position += 1
        events: Iterable[Event] = self._reassembler.finish()
        for event in events if engine is None else chain(engine.feed(events), engine.finish()):
            passed = decoder.feed(event)
            if share is None or share.is_shown():
                yield from passed
        self._dissector.finish()
        if share is not None:
            share.ignored = decoder.ignored
        elif decoder.ignored:
            self._notify(ignored_streams(self._name, decoder.ignored))
        for other, count in self._left_out.items():
            text = f"{count} packets of the {other} leg were left out: --leg {other}, or both"
            self._notify(CaptureWarning(WarningKind.IGNORED, self._name, -1, text))


def ignored_streams(name: str, count: int) -> CaptureWarning:
    """Return the warning about streams that are not AMQP."""
    return CaptureWarning(WarningKind.IGNORED, name, -1, f"{count} TCP streams without AMQP were left out")


def _but_for_link_types(notify: OnWarning) -> OnWarning:
    return lambda warning: None if warning.kind is WarningKind.LINK_TYPE else notify(warning)
