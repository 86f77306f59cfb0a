"""One TCP stream as AMQP: the protocol of each side, the client, and the frames.

Any port is accepted. A stream is AMQP if the first bytes of one side are an AMQP protocol header, or a frame; if it was
joined in its middle, once a frame is found. Bytes of another protocol are counted, and never read as 0-9-1. This module
may be compiled.

A long file, because a conversation reads the fields of its two sides as C does, which works only within one file.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from amqproxy.amqp010.boundary import FrameSearch, frame_size_at
from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, METHOD, Frame
from amqproxy.amqp091.frame_reader import MAX_HEADER
from amqproxy.amqp091.methods import BY_INDEX, BY_NAME
from amqproxy.amqp091.protocol_header import HEADER, LIKE_0_9_1, NAME, recognise
from amqproxy.amqp091.tally import Tally
from amqproxy.amqp091.transitions import CLIENT, SENDERS
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp010.frame_resync import Amqp010Resync
from amqproxy.capture.amqp091.boundary import IMPOSSIBLE, PROOF_BYTES, UNSURE, frame_at
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.amqp091.frame_resync import Found, FrameResync
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.packet_comment import RecordedViolation, opener_of, tells_protocol
from amqproxy.capture.stream_events import Opened, StreamEnd
from amqproxy.capture.unreadable_bytes import JOINED, MISSING, UnreadableBytes
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

MAX_GUESS_BYTES = 64 * 1024
"""Bytes searched for the first frame of a stream that was joined in its middle, on a port that is not AMQP's."""

MAX_AMQP010_GUESS_BYTES = 256 * 1024
"""Bytes searched for 0-10 frames in a stream that was joined in its middle, beside the search for 0-9-1 frames."""

_AMQP010_HEAD = 12

SERVER_PORTS = frozenset({5671, 5672, 5552})
"""AMQP over TLS, AMQP, and RabbitMQ's own stream protocol."""

_HEADER_BYTES = len(HEADER)
_TUNE_OK = BY_NAME["connection.tune-ok"].index
_TLS_KINDS = frozenset({20, 21, 22, 23})
_ENDED = {
    StreamEnd.FIN: "the stream ends within a frame",
    StreamEnd.RST: "the stream was reset within a frame",
}
_CUT = "the capture ends within a frame"


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class ConversationSide:
    """State of one end of a stream.

    It is undecided while there are too few bytes; then either `finder` reads 0-9-1 frames, or `amqp010` 0-10 frames, or
    `stranger` names the protocol whose bytes are counted.
    """

    is_from_start: cython.bint
    has_greeted: cython.bint
    first: bytes
    first_ts_ns: int
    missing: cython.longlong  # bytes before `first`
    offset: cython.longlong  # how many bytes are reported, before any missing ones
    finder: FrameResync | None
    amqp010: Amqp010Resync | None
    stranger: str
    counted: cython.longlong
    counted_ts_ns: int
    guess: FrameSearch | None  # of what may be of 0-10; None where that is settled

    def __init__(self, is_from_start: bool) -> None:
        self.is_from_start = is_from_start
        self.has_greeted = False
        self.first = b""
        self.first_ts_ns = 0
        self.missing = 0
        self.offset = 0
        self.finder = None
        self.amqp010 = None
        self.stranger = ""
        self.counted = 0
        self.counted_ts_ns = 0
        self.guess = None

    @cython.cfunc
    def count(self, ts_ns: int, size: int) -> None:
        """Count bytes of another protocol."""
        if not self.counted:
            self.counted_ts_ns = ts_ns
        self.counted += size


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class Conversation:
    """One stream, from its `Opened` on; `is_reported` is true once an item of it has been reported.

    Nothing is reported before it is known to be AMQP, or another protocol on an AMQP port.
    """

    stream: int
    connection: str = cython.declare(str, visibility="readonly")
    is_reported: bool = cython.declare(cython.bint, visibility="readonly")
    _sides: tuple[ConversationSide, ConversationSide]
    _endpoints: tuple[Endpoint, Endpoint]
    _client: cython.int  # the direction of the client; -1: not yet known
    _is_settled: cython.bint  # whether frames reveal nothing more
    _lasting: cython.int  # how many sides have not ended
    _ended_unreported: cython.int  # the direction that ended before anything of the stream was reported, or -1
    _unreported_ending: StreamEnd
    _tally: Tally
    _frame_max: cython.longlong
    _has_handshake: cython.bint
    _has_server_port: cython.bint
    leg: str = cython.declare(str, visibility="readonly")
    opened: Opened = cython.declare(object, visibility="readonly")
    _note: Note
    _is_amqp010: cython.bint  # as stated in the recording
    _snapshot: ConnectionSnapshot | None  # state before the next frames

    def __init__(self, opened: Opened, tally: Tally) -> None:
        self.stream = opened.stream
        self.opened = opened
        self.connection = ""
        self.is_reported = False
        self._sides = (ConversationSide(opened.has_handshake), ConversationSide(opened.has_handshake))
        self._endpoints = opened.endpoints
        self._has_handshake = opened.has_handshake
        self._client = 0 if opened.has_handshake else -1
        self._is_settled = False
        self._lasting = 2
        self._ended_unreported = -1
        self._unreported_ending = StreamEnd.FIN
        self._tally = tally
        self._frame_max = 0
        self.leg = opened.leg
        self._note = NOTHING
        self._snapshot = None
        self._is_amqp010 = bool(opened.leg) and tells_protocol(opened.comments, AMQP010)
        one, other = opened.endpoints
        if opened.leg and not opened.has_handshake:
            opener = opener_of(opened.comments)
            self._client = 0 if opener == str(one) else 1 if opener == str(other) else -1
        self._has_server_port = opened.leg != "" or one.port in SERVER_PORTS or other.port in SERVER_PORTS

    @property
    def is_hopeless(self) -> bool:
        """Whether neither side is AMQP, so that nothing will ever be reported."""
        one, other = self._side(0), self._side(1)
        return not self.is_reported and one.stranger != "" and other.stranger != ""

    @property
    def is_over(self) -> bool:
        """Whether both sides have ended."""
        return self._lasting == 0

    def sender(self, direction: int) -> str:
        """Return the sender of a direction, "client" or "server", once an item is reported."""
        return self._sender(direction)

    @cython.cfunc
    @cython.inline
    def _side(self, direction: cython.int) -> ConversationSide:
        return self._sides[direction]

    def data(self, direction: cython.int, ts_ns: int, data: bytes, passed: list[Decoded], note: Note = NOTHING) -> None:
        """Process the next bytes of one side; `note` applies to the frames that they complete."""
        self._note = note
        side = self._side(direction)
        if side.finder is not None:
            found = side.finder.feed(ts_ns, data)
            if found:
                self._report(direction, ts_ns, found, passed)
            elif side.guess is not None and self._guess_amqp010(direction, ts_ns, data, False, passed):
                return
            elif not self.is_reported and side.finder.skipped > MAX_GUESS_BYTES and not self._has_server_port:
                self._be_stranger(direction, ts_ns, "unknown", passed)
        elif side.amqp010 is not None:
            self._report_amqp010(direction, ts_ns, side.amqp010.feed(ts_ns, data), passed)
        elif side.stranger:
            self._count_other_protocol(direction, ts_ns, data, passed)
        else:
            side.first_ts_ns = side.first_ts_ns or ts_ns
            side.first += data
            self._decide(direction, ts_ns, False, passed)

    def restore(self, snapshot: ConnectionSnapshot) -> None:
        """Take the state of the connection before the next bytes; it goes with the next frames."""
        self._snapshot = snapshot

    def gap(
        self,
        direction: cython.int,
        ts_ns: int,
        lost: int,
        passed: list[Decoded],
        note: Note = NOTHING,
        is_whole: cython.bint = False,
    ) -> None:
        """Account for `lost` missing bytes of one side; `is_whole` if they are known to be whole frames.

        `note` applies to a frame that they complete.
        """
        self._note = note
        self._snapshot = None  # it may be out of date after the lost bytes
        side = self._side(direction)
        if side.finder is not None:
            if side.guess is not None:
                side.guess = FrameSearch(side.guess.offset + len(side.guess.held) + lost)
            found = side.finder.gap(ts_ns, lost, is_whole)
            if found:
                self._report(direction, ts_ns, found, passed)
        elif side.amqp010 is not None:
            self._report_amqp010(direction, ts_ns, side.amqp010.gap(ts_ns, lost, is_whole), passed)
        elif side.stranger:
            side.count(ts_ns, lost)
        else:
            side.is_from_start = False
            side.first_ts_ns = side.first_ts_ns or ts_ns
            side.missing += len(side.first) + lost
            side.first = b""

    def violation(
        self,
        direction: cython.int,
        ts_ns: int,
        data: bytes,
        wrong: RecordedViolation,
        passed: list[Decoded],
    ) -> bool:
        """Process bytes of one side that violated the protocol when recorded; False if their place is not known."""
        side = self._side(direction)
        if side.finder is None and self.leg and not (side.first or side.missing or side.stranger or self._is_amqp010):
            self._start_reporting(ts_ns, passed)
            self._read(direction, ts_ns, True, passed)  # the first packet of a side of a recording begins with a frame
        if side.finder is None or not self.is_reported:
            return False
        begin = side.finder.skip(len(data))
        if begin < 0:
            return False
        offset = begin if wrong.offset is None else wrong.offset
        fault = UnreadableBytes(ts_ns, wrong.reason, offset, 0, wrong.code, wrong.channel, data)
        self._report_skipped(direction, NAME, fault, passed)
        return True

    def end(self, direction: cython.int, ts_ns: int, ending: StreamEnd, passed: list[Decoded]) -> None:
        """Process the end of one side, reporting its unread bytes."""
        self._lasting -= 1
        side = self._side(direction)
        if side.first and side.finder is None and not side.stranger and self._has_server_port:
            self._decide(direction, ts_ns, True, passed)
        if side.guess is not None and self._has_server_port:
            self._guess_amqp010(direction, ts_ns, b"", True, passed)
        if not self.is_reported:
            self._ended_unreported = direction
            self._unreported_ending = ending
            return
        if self._ended_unreported >= 0:
            other = self._ended_unreported
            self._ended_unreported = -1
            self._finish(other, ts_ns, self._unreported_ending, passed)
        self._finish(direction, ts_ns, ending, passed)

    @cython.cfunc
    def _finish(self, direction: cython.int, ts_ns: int, ending: StreamEnd, passed: list[Decoded]) -> None:
        """Report the unread bytes of a side that has ended, in a reported stream."""
        side = self._side(direction)
        if side.amqp010 is not None:
            self._report_amqp010(direction, ts_ns, side.amqp010.end(ts_ns, _ENDED.get(ending, _CUT)), passed)
        elif side.finder is None and not side.stranger and (side.first or side.missing):
            if side.first and frame_at(side.first, 0) == IMPOSSIBLE:
                self._be_stranger(direction, ts_ns, recognise(side.first) or "unknown", passed)
            else:
                self._read(direction, ts_ns, True, passed)
        if side.finder is not None:
            found: list[Found] = list(side.finder.end(ts_ns, _ENDED.get(ending, _CUT)))
            self._report(direction, ts_ns, found, passed)
        self._report_counted(direction, passed)

    # ------------------------------------------------------------------------------------------- the first bytes

    @cython.cfunc
    def _decide(self, direction: cython.int, ts_ns: int, is_all: cython.bint, passed: list[Decoded]) -> None:
        """Determine the protocol of a side from its first bytes, once there are enough of them, or no more follow."""
        side, peer = self._side(direction), self._side(1 - direction)
        first = side.first
        name = recognise(first) if side.is_from_start or first[:4] == HEADER[:4] else "unknown"
        if name is None:
            return
        if not is_all and len(first) < _HEADER_BYTES and _is_undecided(first, side.is_from_start):
            return
        if first[:4] == HEADER[:4]:
            self._greet(direction, ts_ns, name, passed)
            return
        if self._is_amqp010:
            self._read_amqp010(direction, ts_ns, passed)
            return
        if self.is_reported and peer.stranger and side.is_from_start:
            # A peer addressed in another protocol answers in that protocol.
            self._be_stranger(direction, ts_ns, peer.stranger, passed)
            return
        if peer.amqp010 is not None:
            self._read(direction, ts_ns, False, passed)
            return
        end = frame_at(first, 0)
        if self.leg and end != IMPOSSIBLE:  # the packets of a recording begin with a frame
            self._read(direction, ts_ns, True, passed)
            return
        if end == UNSURE and len(first) < PROOF_BYTES:
            return
        if end != IMPOSSIBLE and (end != UNSURE or first[0] != BODY):
            self._read(direction, ts_ns, True, passed)
        elif self._has_server_port and (known := _foreign_to_amqp(first, side.is_from_start)):
            self._start_reporting(ts_ns, passed)
            self._be_stranger(direction, ts_ns, known, passed)
        elif not side.is_from_start or (self.is_reported and direction != self._client):
            self._read(direction, ts_ns, side.is_from_start, passed)
        else:
            if self.leg:  # whatever the client sent first was shown
                self._start_reporting(ts_ns, passed)
            self._be_stranger(direction, ts_ns, name, passed)

    @cython.cfunc
    def _greet(self, direction: cython.int, ts_ns: int, protocol: str, passed: list[Decoded]) -> None:
        """Process an AMQP protocol header of any version."""
        side = self._side(direction)
        if self._client < 0:
            self._client = direction
        self._start_reporting(ts_ns, passed)
        data, side.first = side.first, b""
        if side.missing:
            fault = UnreadableBytes(side.first_ts_ns, self._reason(), side.offset, side.missing)
            self._report_skipped(direction, NAME, fault, passed)
            side.offset += side.missing
            side.missing = 0
        self._report_header(direction, ts_ns, protocol, data[:_HEADER_BYTES], passed)
        side.has_greeted = True
        side.offset += _HEADER_BYTES
        if protocol == NAME:
            side.first = data[_HEADER_BYTES:]
            self._read(direction, ts_ns, True, passed)
        elif protocol in LIKE_0_9_1:  # RabbitMQ continues in 0-9-1; another broker may request another header
            side.first = data[_HEADER_BYTES:]
            if side.first:
                self._decide(direction, ts_ns, False, passed)
        elif protocol == AMQP010:
            side.amqp010 = Amqp010Resync(offset=side.offset)
            self._report_amqp010(direction, ts_ns, side.amqp010.feed(ts_ns, data[_HEADER_BYTES:]), passed)
        else:
            side.stranger = protocol
            side.count(ts_ns, len(data) - _HEADER_BYTES)

    @cython.cfunc
    def _read(self, direction: cython.int, ts_ns: int, is_aligned: cython.bint, passed: list[Decoded]) -> None:
        """Begin to read frames; unless `is_aligned` without missing bytes, the first boundary is searched for."""
        side = self._side(direction)
        data, side.first = side.first, b""
        side.stranger = ""
        fault = None
        if side.missing or not is_aligned:
            fault = UnreadableBytes(side.first_ts_ns, self._reason(), side.offset)
        begin = side.offset + side.missing
        side.missing = 0
        # RabbitMQ bounds only the bodies that it sends; of a client it takes no larger header either.
        header_max = 0 if direction == self._client else MAX_HEADER
        side.finder = FrameResync(
            self._tally, frame_max=self._frame_max, header_max=header_max, offset=begin, fault=fault
        )
        if fault is not None and (not self.is_reported or self._side(1 - direction).amqp010 is not None):
            side.guess = FrameSearch(begin)
        if data:
            found = side.finder.feed(ts_ns, data)
            self._report(direction, ts_ns, found, passed)
            if side.guess is not None:
                self._guess_amqp010(direction, ts_ns, data, False, passed)

    @cython.cfunc
    def _guess_amqp010(
        self, direction: cython.int, ts_ns: int, data: bytes, is_all: cython.bint, passed: list[Decoded]
    ) -> bool:
        """Search for 0-10 frames in a side that was joined in its middle; return whether there are any.

        Two consecutive frames are proof; so is one that ends where the bytes end, if the other side speaks 0-10, or no
        more follow.
        """
        side, peer = self._side(direction), self._side(1 - direction)
        if (self.is_reported and peer.amqp010 is None) or side.guess is None:
            side.guess = None
            return False
        search = side.guess
        is_sure = search.feed(data)
        guess = search.held
        if not is_sure:
            is_last = (is_all or peer.amqp010 is not None) and len(guess) >= _AMQP010_HEAD
            is_sure = is_last and frame_size_at(guess, 0) == len(guess)
        if not is_sure:
            if search.offset - side.offset > MAX_AMQP010_GUESS_BYTES:
                side.guess = None
            return False
        side.guess = None
        side.finder = None
        fault = UnreadableBytes(side.first_ts_ns or ts_ns, self._reason(), side.offset)
        side.amqp010 = Amqp010Resync(offset=search.offset, fault=fault)
        self._start_reporting(ts_ns, passed)
        self._report_amqp010(direction, ts_ns, side.amqp010.feed(ts_ns, guess), passed)
        other = 1 - direction
        if peer.guess is not None:
            self._guess_amqp010(other, ts_ns, b"", False, passed)
        elif peer.finder is not None and peer.finder.skipped:
            peer.guess = FrameSearch(peer.offset + peer.finder.skipped)
        return True

    @cython.cfunc
    def _read_amqp010(self, direction: cython.int, ts_ns: int, passed: list[Decoded]) -> None:
        """Begin to read 0-10 frames, in a recording that begins in the middle of a connection."""
        side = self._side(direction)
        self._start_reporting(ts_ns, passed)
        data, side.first = side.first, b""
        if side.missing:
            fault = UnreadableBytes(side.first_ts_ns, self._reason(), side.offset, side.missing)
            self._report_skipped(direction, AMQP010, fault, passed)
            side.offset += side.missing
            side.missing = 0
        side.amqp010 = Amqp010Resync(offset=side.offset)
        self._report_amqp010(direction, ts_ns, side.amqp010.feed(ts_ns, data), passed)

    @cython.cfunc
    def _be_stranger(self, direction: cython.int, ts_ns: int, protocol: str, passed: list[Decoded]) -> None:
        """Treat a side as another protocol than 0-9-1; if the stream is reported, its first bytes are its header."""
        side = self._side(direction)
        side.stranger = protocol
        side.guess = None
        if side.finder is not None:
            side.missing = side.finder.skipped
            side.finder = None
        if side.missing:
            side.count(side.first_ts_ns, side.missing)
            side.missing = 0
        if self.is_reported:
            data, side.first = side.first, b""
            answers = self._side(1 - direction).stranger == protocol and direction != self._client
            if data and side.is_from_start and not answers:
                header = data[:_HEADER_BYTES]
                self._report_header(direction, side.first_ts_ns, protocol, header, passed)
                side.offset += len(header)
                data = data[_HEADER_BYTES:]
            side.count(ts_ns, len(data))
        else:
            side.count(ts_ns, max(0, len(side.first) - _HEADER_BYTES))
            side.first = side.first[:_HEADER_BYTES]

    @cython.cfunc
    def _count_other_protocol(self, direction: cython.int, ts_ns: int, data: bytes, passed: list[Decoded]) -> None:
        """Count bytes of another protocol, unless the client now retries with 0-9-1."""
        side, peer = self._side(direction), self._side(1 - direction)
        if data.startswith(HEADER) and side.has_greeted and peer.has_greeted and not peer.stranger:
            self._report_counted(direction, passed)
            side.first, side.first_ts_ns = data, ts_ns
            self._greet(direction, ts_ns, NAME, passed)
        else:
            side.count(ts_ns, len(data))

    @cython.cfunc
    def _start_reporting(self, ts_ns: int, passed: list[Decoded]) -> None:
        """Begin to report the stream, including the first bytes of its other side."""
        if self.is_reported:
            return
        self.is_reported = True
        self._identify()
        for direction in (0, 1):
            side = self._side(direction)
            if side.stranger and side.is_from_start:
                self._be_stranger(direction, side.first_ts_ns, side.stranger, passed)
            elif side.stranger:  # it was given up too early
                side.missing = side.counted + len(side.first)
                side.counted, side.first = 0, b""
                self._read(direction, ts_ns, False, passed)

    @cython.cfunc
    def _identify(self) -> None:
        """Determine the names of both ends; if nothing else identifies the client, the ports do."""
        if self._client < 0:
            self._client = _client_by_port(self._endpoints[0].port, self._endpoints[1].port)
        client, server = self._endpoints[self._client], self._endpoints[1 - self._client]
        self.connection = f"{client}-{server}"

    @cython.cfunc
    def _reason(self) -> str:
        """Return why the first bytes of a side are not a whole frame."""
        return MISSING if self._has_handshake else JOINED

    # --------------------------------------------------------------------------------------------------- reporting

    @cython.cfunc
    def _report(self, direction: cython.int, ts_ns: int, found: list[Found], passed: list[Decoded]) -> None:
        if not self._is_settled and not self._settle(direction, ts_ns, found, passed):
            return
        sender = "client" if direction == self._client else "server"
        for each in found:
            if isinstance(each, UnreadableBytes):
                self._report_skipped(direction, NAME, each, passed)
            else:
                passed.append(
                    Amqp091DecodedFrames(
                        ts_ns,
                        self.stream,
                        self.connection,
                        sender,
                        each,
                        self.leg,
                        self._note,
                        snapshot=self._snapshot,
                    )
                )
                self._snapshot = None

    @cython.cfunc
    def _report_amqp010(self, direction: cython.int, ts_ns: int, found: object, passed: list[Decoded]) -> None:
        sender = self._sender(direction)
        for each in found:  # type: ignore[attr-defined]
            if isinstance(each, UnreadableBytes):
                self._report_skipped(direction, AMQP010, each, passed)
            else:
                passed.append(
                    Amqp010DecodedFrames(
                        ts_ns,
                        self.stream,
                        self.connection,
                        sender,
                        each.frames,
                        self.leg,
                        self._note,
                        command_ids=each.command_ids,
                        snapshot=self._snapshot,
                    )
                )
                self._snapshot = None

    @cython.cfunc
    def _settle(self, direction: cython.int, ts_ns: int, found: list[Found], passed: list[Decoded]) -> bool:
        """Note the ends and limits that the first frames of a stream determine; return False if there are none yet."""
        frames = [frame for each in found if not isinstance(each, UnreadableBytes) for frame in each]
        if not self.is_reported:
            if not frames:
                return False
            if self._client < 0:
                self._client = _client_by_methods(direction, frames)
            self._start_reporting(ts_ns, passed)
        # A channel is in use only after both agreed, whether or not that is in the capture.
        self._is_settled = any(frame.channel for frame in frames)
        for frame in frames:
            if frame.index == _TUNE_OK:
                self._tune(frame)
        return True

    @cython.cfunc
    def _tune(self, frame: Frame) -> None:
        """Apply the negotiated frame size limit."""
        try:
            self._frame_max = frame.method.frame_max
        except ProtocolError:
            return
        self._is_settled = True
        for direction in (0, 1):
            side = self._side(direction)
            if side.finder is not None:
                side.finder.set_frame_max(self._frame_max)

    @cython.cfunc
    def _report_skipped(
        self, direction: cython.int, protocol: str, fault: UnreadableBytes, passed: list[Decoded]
    ) -> None:
        passed.append(
            SkippedBytes(
                fault.ts_ns,
                self.stream,
                self.connection,
                self._sender(direction),
                protocol,
                fault.reason,
                fault.offset,
                fault.lost,
                fault.code,
                fault.channel,
                fault.data,
                self.leg,
            )
        )

    @cython.cfunc
    def _sender(self, direction: int) -> str:
        return "client" if direction == self._client else "server"

    @cython.cfunc
    def _report_header(
        self, direction: cython.int, ts_ns: int, protocol: str, data: bytes, passed: list[Decoded]
    ) -> None:
        sender = self._sender(direction)
        header = DecodedProtocolHeader(ts_ns, self.stream, self.connection, sender, protocol, data, self.leg)
        passed.append(header)

    @cython.cfunc
    def _report_counted(self, direction: cython.int, passed: list[Decoded]) -> None:
        """Report the number of bytes of another protocol."""
        side = self._side(direction)
        if side.counted:
            reason = f"{side.stranger} is not decoded"
            fault = UnreadableBytes(side.counted_ts_ns, reason, side.offset, side.counted)
            self._report_skipped(direction, side.stranger, fault, passed)
            side.offset += side.counted
            side.counted = 0


def _is_undecided(first: bytes, is_from_start: bool) -> bool:
    """Whether more bytes are needed: an AMQP header may have begun, or one of another protocol."""
    return HEADER.startswith(first[:4]) if not is_from_start else frame_at(first, 0) == IMPOSSIBLE


def _foreign_to_amqp(first: bytes, is_from_start: bool) -> str:
    """Return the name of a known protocol other than AMQP; mid-stream, only TLS is recognized."""
    if is_from_start:
        name = recognise(first)
        return name if name and name != "unknown" else ""
    return "TLS" if first[0] in _TLS_KINDS and first[1:2] == b"\x03" and first[2:3] <= b"\x04" else ""


def _client_by_methods(direction: cython.int, frames: list[Frame]) -> int:
    """Return the direction of the client, if the methods in `direction` show it; otherwise -1."""
    for frame in frames:
        if frame.kind == METHOD:
            senders = SENDERS[BY_INDEX[frame.index].name]
            if len(senders) == 1:
                return direction if CLIENT in senders else 1 - direction
    return -1


def _client_by_port(one: int, other: int) -> int:
    """Return which of two ports is the client's: the one that is not AMQP's, otherwise the higher."""
    if (one in SERVER_PORTS) != (other in SERVER_PORTS):
        return 1 if one in SERVER_PORTS else 0
    return 0 if one >= other else 1
