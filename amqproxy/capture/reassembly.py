"""Reassembly of TCP segments into streams of bytes, each direction of each connection ordered separately.

Bytes are delivered as soon as they are complete. A hole is kept open until the receiver has acknowledged its bytes (so
that the capture missed them), until too much is held after it, or until the direction ends; then it becomes a `Gap`.

A FIN ends its direction only: the peer may still send (RFC 9293, section 3.6). An RST ends both, if its sequence number
is one that the receiver accepts; bytes after it reach no application, and are counted in a warning.

If bytes arrive twice, the first copy is used. A stream that was joined in its middle begins with the first bytes seen;
earlier bytes that arrive late are dropped. This module may be compiled.

A long file, because the reassembler reads the fields of streams and directions as C does, which works only within one
file.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from bisect import bisect_left

from amqproxy.capture.endpoints import reverse, source_of
from amqproxy.capture.packet_comment import lost_comment, tells_loss
from amqproxy.capture.packet_snapshot import snapshot_of
from amqproxy.capture.packets import ZERO_WINDOW, TCPSegment
from amqproxy.capture.stream_events import Closed, Data, Event, Gap, Opened, StreamEnd
from amqproxy.capture.warnings import CaptureWarning, OnWarning, WarningKind, ignore_warning

MAX_HELD_BYTES = 16 * 1024 * 1024
"""Bytes held after a hole in one direction: as many as a fast and long path has in flight."""
MAX_HELD_PIECES = 4096
"""Segments held after a hole in one direction."""
MAX_HELD_IN_ALL = 128 * 1024 * 1024
"""Bytes held after holes in all streams; beyond it the hole that grew is given up."""
ACKNOWLEDGED_PATIENCE = 3
"""Segments of the stream that may follow before an acknowledged hole is given up: where several queues of a card are
captured, an acknowledgement can overtake what it acknowledges."""
RESET_PATIENCE_NS = 1_000_000_000
"""Nanoseconds for which an RST beyond all bytes seen may still be the end.

A connection that continues later has not accepted it (RFC 5961, section 3.2).
"""
MAX_STREAMS = 65_536
"""Streams open at once; beyond it the quietest eighth is given up."""
MAX_CLOSED_STREAMS = 1024
"""Streams remembered after their end, for their last, late packets."""

_ZERO_WINDOW = cython.declare(cython.int, ZERO_WINDOW)
_BEHIND = cython.declare(cython.longlong, 3 << 30)
_LOST_FRAMES = (lost_comment(0, 0),)
"""Comments of missing bytes that are whole frames."""

_WRAP = cython.declare(cython.longlong, 1 << 32)
_WINDOW = cython.declare(cython.longlong, 1 << 30)


@cython.auto_pickle(True)
@cython.cclass
class _Direction:
    """State of one direction of a stream; positions are sequence numbers that do not wrap around."""

    stream: _Stream
    peer: _Direction
    index: cython.int
    is_known: cython.bint  # whether `next` means anything
    is_guess: cython.bint  # whether `next` is from a segment without bytes, and may be one too low
    is_over: cython.bint
    next: cython.longlong
    first: cython.longlong  # where the direction began, or where it was joined
    isn: cython.longlong  # -1: no SYN was seen
    end: cython.longlong  # where the FIN is; -1: not yet seen
    reset: cython.longlong  # where the RST is that the receiver has taken; -1: not seen
    doubtful: cython.longlong  # where an RST is that the receiver may not have taken; -1: none
    doubtful_ns: int
    acked: cython.longlong  # the last acknowledgement by the peer, as it was sent; -1: none
    waited: cython.int  # segments since the hole was acknowledged
    held: list[tuple[int, int, bytes, tuple[str, ...]]]  # pieces after a hole, in order: from, to, bytes, comments
    held_bytes: cython.longlong
    is_stalled: cython.bint  # whether the sender's window is 0
    stalled_at: int  # since when
    stalled_ns: int  # the longest time for which it was
    stalled_until_ns: int  # the end of that time

    def __init__(self, stream: _Stream, index: int) -> None:
        self.stream = stream
        self.index = index
        self.is_known = False
        self.is_guess = False
        self.is_over = False
        self.next = 0
        self.first = 0
        self.isn = -1
        self.end = -1
        self.reset = -1
        self.doubtful = -1
        self.doubtful_ns = 0
        self.acked = -1
        self.waited = 0
        self.held = []
        self.held_bytes = 0
        self.is_stalled = False
        self.stalled_at = 0
        self.stalled_ns = 0
        self.stalled_until_ns = 0

    @cython.cfunc
    def begin(self, seq: cython.longlong, is_guess: cython.bint) -> None:
        self.is_known = True
        self.is_guess = is_guess
        self.next = self.first = seq

    @cython.cfunc
    def place(self, number: cython.longlong) -> cython.longlong:
        """Return the position of a 32-bit sequence number: up to 1 GiB back, the largest window, otherwise ahead."""
        ahead: cython.longlong = (number - self.next) & 0xFFFFFFFF
        return self.next + ahead - (_WRAP if ahead >= _BEHIND else 0)

    @cython.cfunc
    def end_stall(self, ts_ns: int) -> None:
        """Note that the sender's window is open again, or its end."""
        self.is_stalled = False
        if ts_ns - self.stalled_at > self.stalled_ns:
            self.stalled_ns = ts_ns - self.stalled_at
            self.stalled_until_ns = ts_ns

    @cython.cfunc
    def sent_end(self) -> cython.longlong:
        """Return the position after all bytes seen or acknowledged in the direction, its FIN included."""
        found: cython.longlong = self.next + (1 if self.is_guess else 0)
        if self.held:
            found = max(found, self.held[len(self.held) - 1][1])
        if self.end >= 0:
            found = max(found, self.end + 1)
        if self.acked >= 0:
            found = max(found, self.place(self.acked))
        return found


@cython.auto_pickle(True)
@cython.cclass
class _Stream:
    """One connection."""

    number: cython.longlong
    flow: bytes
    client: _Direction
    server: _Direction
    last_seen: cython.longlong
    last_ns: int  # the time of its last segment
    capture: cython.longlong  # of which capture its last segment was
    is_closed: cython.bint
    is_reset: cython.bint
    is_ignored: cython.bint

    def __init__(self, number: int, flow: bytes, capture: int) -> None:
        self.number = number
        self.flow = flow
        self.capture = capture
        self.last_seen = 0
        self.last_ns = 0
        self.is_closed = False
        self.is_reset = False
        self.is_ignored = False
        self.client = _Direction(self, 0)
        self.server = _Direction(self, 1)
        self.client.peer = self.server
        self.server.peer = self.client


@cython.auto_pickle(True)
@cython.cclass
class Reassembler:
    """The TCP streams of one capture, numbered in the order of their first packets."""

    _file: str
    _notify: object
    _directions: dict[bytes, _Direction]
    _open: dict[int, _Stream]
    _closed: dict[int, _Stream]
    _streams: cython.longlong
    _seen: cython.longlong
    _capture: cython.longlong
    _held_bytes: cython.longlong
    _ts_ns: int
    _comments: tuple[str, ...]
    _has_forgotten: cython.bint
    _has_doubts: cython.bint
    _after_reset: cython.longlong

    def __init__(self, file: str = "capture", notify: OnWarning = ignore_warning) -> None:
        self._file = file
        self._notify = notify
        self._directions = {}
        self._open = {}
        self._closed = {}
        self._streams = 0
        self._seen = 0
        self._capture = 0
        self._held_bytes = 0
        self._ts_ns = 0
        self._comments = ()
        self._has_forgotten = False
        self._has_doubts = False
        self._after_reset = 0

    def ignore(self, stream: int) -> None:
        """Deliver and hold nothing more of a stream; it still ends with `Closed`."""
        found = self._open.get(stream) or self._closed.get(stream)
        if found is not None:
            found.is_ignored = True
            self._forget_held(found.client)
            self._forget_held(found.server)

    def feed(self, segment: TCPSegment) -> list[Event]:
        """Process a segment, and return the events that it causes."""
        events: list[Event] = []
        self._take(segment, events)
        if self._has_doubts:
            direction: _Direction | None = self._directions.get(segment.flow)
            if direction is not None and not segment.flags & 4:
                self._settle(direction, events)
                self._settle(direction.peer, events)
        return events

    @cython.cfunc
    def _take(self, segment: TCPSegment, events: list[Event]) -> None:
        flags: cython.int = segment.flags
        seq: cython.longlong = segment.seq
        ack: cython.longlong = segment.ack
        payload: bytes = segment.payload
        length: cython.longlong = len(payload) + segment.missing
        self._ts_ns = segment.ts_ns
        self._comments = segment.comments
        self._seen += 1

        direction: _Direction | None = self._directions.get(segment.flow)
        if direction is not None and direction.stream.capture != self._capture:
            if self._is_of_another(direction, seq, length, flags):
                self._end_stream(direction.stream, StreamEnd.REUSED, events)
                self._forget(direction.stream)
                direction = None
            else:
                direction.stream.capture = self._capture
        if direction is not None and flags & 2 and self._is_reused(direction, seq, ack, flags):  # SYN
            self._end_stream(direction.stream, StreamEnd.REUSED, events)
            self._forget(direction.stream)
            direction = None
        if direction is None:
            direction = self._opened(segment, events)
        stream: _Stream = direction.stream
        peer: _Direction = direction.peer
        stream.last_seen = self._seen
        stream.last_ns = segment.ts_ns

        if flags & 4:  # RST: before its acknowledgement is believed, which may be as wrong as its sequence number
            self._take_reset(direction, segment, events)
            return
        if flags & _ZERO_WINDOW:
            if not direction.is_stalled:
                direction.is_stalled = True
                direction.stalled_at = segment.ts_ns
        elif direction.is_stalled:
            direction.end_stall(segment.ts_ns)
        if flags & 16:  # ACK
            peer.acked = ack
            if flags & 2 and not peer.is_known:
                peer.begin(ack, False)
        if peer.held or peer.end >= 0:
            self._wait(peer, events)

        if flags & 2:
            if direction.isn < 0:
                direction.isn = seq
                if not direction.is_known or direction.is_guess:
                    direction.begin((seq + 1) & 0xFFFFFFFF, False)
            seq += 1
        if direction.is_over or stream.is_ignored:
            if stream.is_reset and not stream.is_ignored and length:
                stop: cython.longlong = direction.place(seq) + length
                self._after_reset += max(0, min(length, stop - direction.next))
                direction.next = max(direction.next, stop)
            if flags & 1 and not direction.is_over:
                self._end(direction, StreamEnd.FIN, events)
                self._linger_when_over(stream, events)
            return
        if length == 0 and not flags & 1:
            if not direction.is_known:
                direction.begin(seq, True)
            if direction.held or direction.end >= 0:
                self._wait(direction, events)
            return

        if not direction.is_known:
            direction.begin(seq, False)
        position: cython.longlong = direction.place(seq)
        if direction.is_guess:
            direction.is_guess = False
            if position == direction.next + 1 or position < direction.next:
                direction.next = direction.first = position
        if flags & 1 and direction.end < 0:  # FIN
            direction.end = position + length
        if flags & 16 and segment.comments and snapshot_of(segment.comments) is not None:
            self._lose_acknowledged(peer, ack, events)
        if position == direction.next and not direction.held:
            self._deliver(direction, payload, length, segment.comments, events)
        else:
            if length:
                self._hold(direction, position, payload, length, segment.comments)
                self._drain(direction, events)
            if segment.comments and tells_loss(segment.comments):
                self._give_up_all(direction, events)
        if direction.end >= 0 and direction.next >= direction.end:
            self._end(direction, StreamEnd.FIN, events)
            self._linger_when_over(stream, events)
        elif direction.held or direction.end >= 0:
            self._wait(direction, events)

    def begin_capture(self) -> None:
        """Begin a capture that may be concurrent, and hold the same connections again."""
        self._capture += 1

    def finish(self) -> list[Event]:
        """Return the remaining events at the end of the capture, stream by stream."""
        events: list[Event] = []
        self._comments = ()
        for number in sorted([*self._open, *self._closed]):
            stream: _Stream = self._open.get(number) or self._closed[number]
            self._end_stream(stream, StreamEnd.END, events)
        if self._after_reset:
            text = f"{self._after_reset} bytes that came after the reset of their connection were left out"
            self._notify(CaptureWarning(WarningKind.IGNORED, self._file, -1, text))  # type: ignore[operator]
            self._after_reset = 0
        self._open.clear()
        self._closed.clear()
        self._directions.clear()
        return events

    # ---------------------------------------------------------------------------------------------------------- streams

    @cython.cfunc
    def _opened(self, segment: TCPSegment, events: list[Event]) -> _Direction:
        """Return the direction of `segment` in a new stream."""
        if len(self._open) >= MAX_STREAMS:
            self._forget_quietest(events)
        flags: cython.int = segment.flags
        flow: bytes = segment.flow
        other: bytes = reverse(flow)
        is_answer: cython.bint = flags & 18 == 18  # SYN and ACK
        stream = _Stream(self._streams, other if is_answer else flow, self._capture)
        self._streams += 1
        self._open[stream.number] = stream
        direction: _Direction = stream.server if is_answer else stream.client
        self._directions[other] = direction.peer
        self._directions[flow] = direction
        endpoints = (source_of(stream.flow), source_of(reverse(stream.flow)))
        events.append(Opened(stream.number, segment.ts_ns, endpoints, flags & 2 != 0, segment.leg, segment.comments))
        return direction

    @cython.cfunc
    def _is_of_another(
        self, direction: _Direction, seq: cython.longlong, length: cython.longlong, flags: cython.int
    ) -> cython.bint:
        """Whether a segment of another capture begins a connection again instead of continuing the known one."""
        if flags & 2:  # SYN
            return True
        if not direction.is_known:
            return False
        position: cython.longlong = direction.place(seq)
        return position < direction.next - 1 or (length > 0 and position + length <= direction.next)

    @cython.cfunc
    def _is_reused(
        self, direction: _Direction, seq: cython.longlong, ack: cython.longlong, flags: cython.int
    ) -> cython.bint:
        """Whether a SYN of `direction` begins another connection than the known one."""
        peer: _Direction = direction.peer
        if flags & 16 and peer.is_known and ack == peer.first & 0xFFFFFFFF:
            return False
        if direction.isn >= 0:
            return direction.isn != seq
        if direction.is_known:
            return direction.first & 0xFFFFFFFF != (seq + 1) & 0xFFFFFFFF
        return peer.is_known and peer.isn < 0

    @cython.cfunc
    def _linger_when_over(self, stream: _Stream, events: list[Event]) -> None:
        if stream.client.is_over and stream.server.is_over:
            self._linger(stream, events)

    @cython.cfunc
    def _linger(self, stream: _Stream, events: list[Event]) -> None:
        """Remember an ended stream for a while."""
        if stream.is_closed:
            return
        stream.is_closed = True
        self._open.pop(stream.number, None)
        self._closed[stream.number] = stream
        if len(self._closed) > MAX_CLOSED_STREAMS:
            oldest: _Stream = self._closed[next(iter(self._closed))]
            self._end_stream(oldest, StreamEnd.RST, events)
            self._forget(oldest)

    @cython.cfunc
    def _forget(self, stream: _Stream) -> None:
        self._open.pop(stream.number, None)
        self._closed.pop(stream.number, None)
        for flow in (stream.flow, reverse(stream.flow)):
            known: _Direction | None = self._directions.get(flow)
            if known is not None and known.stream is stream:
                del self._directions[flow]

    @cython.cfunc
    def _forget_quietest(self, events: list[Event]) -> None:
        if not self._has_forgotten:
            self._has_forgotten = True
            text = f"more than {MAX_STREAMS} TCP streams are open at once; the quietest are given up"
            self._notify(CaptureWarning(WarningKind.STREAMS, self._file, -1, text))  # type: ignore[operator]
        ages: list[tuple[int, int]] = sorted([(stream.last_seen, number) for number, stream in self._open.items()])
        for _, number in ages[: MAX_STREAMS // 8 + 1]:
            stream: _Stream = self._open[number]
            self._end_stream(stream, StreamEnd.FORGOTTEN, events)
            self._forget(stream)

    @cython.cfunc
    def _end_stream(self, stream: _Stream, ending: object, events: list[Event]) -> None:
        """End the open directions of a finished stream, at the time of its last segment if one end has closed it."""
        now_ns = self._ts_ns
        for direction in (stream.client, stream.server):
            if direction.doubtful >= 0 and not direction.is_over:  # nothing came that speaks against it
                self._ts_ns = direction.doubtful_ns
                self._reset(direction, events)
        if stream.client.is_over or stream.server.is_over or stream.client.end >= 0 or stream.server.end >= 0:
            self._ts_ns = stream.last_ns
        if stream.server.end >= 0:
            self._end(stream.server, ending, events)
        self._end(stream.client, ending, events)
        self._end(stream.server, ending, events)
        self._ts_ns = now_ns

    # ----------------------------------------------------------------------------------------------------------- resets

    @cython.cfunc
    def _take_reset(self, direction: _Direction, segment: TCPSegment, events: list[Event]) -> None:
        """End the stream if the receiver accepts the RST.

        It accepts one at the next byte it expects, which lies between its last acknowledgement and the last byte sent.
        An earlier one is stale, or forged. One ahead may be either: bytes before it are missing in the capture or
        arrive later, or it is forged, and then the connection continues.
        """
        position: cython.longlong = direction.place(segment.seq)
        if direction.is_known and not direction.stream.is_ignored:
            if position < (direction.first if direction.acked < 0 else direction.place(direction.acked)):
                return
            if position > direction.sent_end():
                if position != direction.doubtful:
                    direction.doubtful = position
                    direction.doubtful_ns = segment.ts_ns
                    self._has_doubts = True
                return
            direction.reset = position
        if segment.flags & 16:  # ACK
            direction.peer.acked = segment.ack
        self._reset(direction, events)
        self._linger(direction.stream, events)

    @cython.cfunc
    def _settle(self, direction: _Direction, events: list[Event]) -> None:
        """Accept the doubtful RST of a direction if all bytes before it have arrived.

        Forget it if the stream continues.
        """
        if direction.doubtful < 0 or direction.is_over:
            return
        has_all: cython.bint = direction.next == direction.doubtful and not direction.held
        if direction.acked >= 0 and direction.place(direction.acked) == direction.doubtful:
            has_all = True
        if self._ts_ns - direction.doubtful_ns > RESET_PATIENCE_NS or direction.next > direction.doubtful:
            direction.doubtful = -1
        elif has_all:
            direction.reset = direction.doubtful
            self._reset(direction, events)
            self._linger(direction.stream, events)

    @cython.cfunc
    def _reset(self, direction: _Direction, events: list[Event]) -> None:
        """End both directions because of the RST of this one."""
        direction.stream.is_reset = True
        if direction.peer.end >= 0:  # it had closed before
            self._end(direction.peer, StreamEnd.FIN, events)
        self._end(direction, StreamEnd.RST, events)
        self._end(direction.peer, StreamEnd.RST, events)

    # ------------------------------------------------------------------------------------------------------- directions

    @cython.cfunc
    def _end(self, direction: _Direction, ending: object, events: list[Event]) -> None:
        """Deliver the held bytes, and close the direction."""
        if direction.is_over:
            return
        self._flush(direction, events)
        if direction.end >= 0:  # its FIN was seen, and waited for what came before it
            ending = StreamEnd.FIN
        self._forget_held(direction)
        direction.is_over = True
        number = direction.stream.number
        if direction.is_stalled:
            direction.end_stall(self._ts_ns)
        stall = direction.stalled_ns, direction.stalled_until_ns
        events.append(Closed(number, direction.index, self._ts_ns, ending, self._comments, *stall))  # type: ignore[arg-type]

    @cython.cfunc
    def _flush(self, direction: _Direction, events: list[Event]) -> None:
        """Deliver the held bytes, and report the gaps."""
        if direction.is_over or direction.stream.is_ignored:
            return
        while direction.held:
            self._give_up(direction, events)
        if direction.end >= 0:
            if direction.end > direction.next:
                self._lose(direction, direction.end, events)
        elif direction.reset >= 0:
            if direction.reset > direction.next:
                self._lose(direction, direction.reset, events)
        elif direction.is_known and direction.acked >= 0:
            acked: cython.longlong = direction.place(direction.acked)
            if direction.peer.end >= 0:
                acked -= 1  # a connection that the peer closed is closed here too: the last was a FIN
            elif acked == direction.next + 1:
                acked -= 1  # most likely
            if direction.next < acked < direction.next + _WINDOW:
                self._lose(direction, acked, events)

    @cython.cfunc
    def _wait(self, direction: _Direction, events: list[Event]) -> None:
        """Give up holes that were acknowledged a while ago, or have too much held after them."""
        if direction.is_over or direction.stream.is_ignored:
            return
        while direction.held and (
            direction.held_bytes > MAX_HELD_BYTES
            or len(direction.held) > MAX_HELD_PIECES
            or self._held_bytes > MAX_HELD_IN_ALL
        ):
            self._give_up(direction, events)
        while direction.held or direction.end > direction.next:
            hole_end: cython.longlong = direction.held[0][0] if direction.held else direction.end
            if direction.acked < 0 or direction.place(direction.acked) < hole_end:
                break
            if direction.waited < ACKNOWLEDGED_PATIENCE:
                direction.waited += 1
                break
            if direction.held:
                self._give_up(direction, events)
            else:
                self._lose(direction, hole_end, events)
        if direction.end >= 0 and direction.next >= direction.end:
            self._end(direction, StreamEnd.FIN, events)
            self._linger_when_over(direction.stream, events)

    @cython.cfunc
    def _hold(
        self,
        direction: _Direction,
        start: cython.longlong,
        payload: bytes,
        length: cython.longlong,
        comments: tuple[str, ...],
    ) -> None:
        """Hold the new bytes at `start`, of which `payload` may be only the first."""
        held: list[tuple[int, int, bytes, tuple[str, ...]]] = direction.held
        base: cython.longlong = start
        stop: cython.longlong = start + length
        start = max(start, direction.next)
        at: cython.Py_ssize_t = len(held)
        if at and held[at - 1][1] > start:
            at = bisect_left(held, (start,))
            if at and held[at - 1][1] > start:
                start = held[at - 1][1]
        while start < stop:
            upto: cython.longlong = stop
            if at < len(held):
                upto = min(upto, held[at][0])
            if start < upto:
                piece: bytes = payload[start - base : upto - base]
                held.insert(at, (start, upto, piece, comments))
                at += 1
                direction.held_bytes += len(piece)
                self._held_bytes += len(piece)
            if at >= len(held):
                break
            start = max(start, held[at][1])
            at += 1

    @cython.cfunc
    def _drain(self, direction: _Direction, events: list[Event]) -> None:
        """Deliver the held bytes up to the next hole."""
        while direction.held:
            start, stop, data, comments = direction.held[0]
            if start > direction.next:
                break
            del direction.held[0]
            direction.held_bytes -= len(data)
            self._held_bytes -= len(data)
            self._deliver(direction, data, stop - start, comments, events)

    @cython.cfunc
    def _give_up(self, direction: _Direction, events: list[Event]) -> None:
        """Report the hole before the first held piece as lost."""
        if direction.held[0][0] > direction.next:
            self._lose(direction, direction.held[0][0], events, direction.held[0][3])
        self._drain(direction, events)

    @cython.cfunc
    def _give_up_all(self, direction: _Direction, events: list[Event]) -> None:
        """Report all holes as lost: the recording itself shows its missing bytes."""
        while direction.held:
            self._give_up(direction, events)
        if direction.end > direction.next:
            self._lose(direction, direction.end, events, self._comments)

    @cython.cfunc
    def _lose_acknowledged(self, direction: _Direction, ack: cython.longlong, events: list[Event]) -> None:
        """Report what a packet with a snapshot acknowledges as lost: a loss seen after it would make it out of date."""
        if direction.is_known and not direction.is_over:
            self._give_up_all(direction, events)
            acknowledged: cython.longlong = direction.place(ack)
            if acknowledged > direction.next:
                self._lose(direction, acknowledged, events, _LOST_FRAMES)

    @cython.cfunc
    def _deliver(
        self,
        direction: _Direction,
        data: bytes,
        length: cython.longlong,
        comments: tuple[str, ...],
        events: list[Event],
    ) -> None:
        """Deliver the next `length` bytes; those not in `data` were not captured."""
        direction.next += len(data)
        direction.waited = 0
        if data:
            events.append(Data._of(direction.stream.number, direction.index, self._ts_ns, data, comments))
        if length > len(data):
            self._lose(direction, direction.next + length - len(data), events, comments)

    @cython.cfunc
    def _lose(
        self,
        direction: _Direction,
        upto: cython.longlong,
        events: list[Event],
        comments: tuple[str, ...] = (),
    ) -> None:
        lost: cython.longlong = upto - direction.next
        direction.next = upto
        direction.waited = 0
        gap = Gap(direction.stream.number, direction.index, self._ts_ns, lost, comments)
        events.append(gap)

    @cython.cfunc
    def _forget_held(self, direction: _Direction) -> None:
        self._held_bytes -= direction.held_bytes
        direction.held_bytes = 0
        direction.held = []
