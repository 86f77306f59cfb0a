"""Bytes to frames, in the order that a channel allows (sections 4.2.3 and 4.2.6).

A `FrameReader` is one direction of one connection. It accepts bytes in any division and finds the complete frames; its
owner selects the frames that are returned as `Frame`s. The others are checked and counted in place, which is what makes
a proxy fast: no object is made of them.

The file stays whole, because the compiler inlines the `ContentState` into the loop over frames only within one file.
"""

from __future__ import annotations

from amqproxy.amqp091.errors import CommandInvalid, ErrorKind, FrameError, ProtocolError, UnexpectedFrame
from amqproxy.amqp091.frame import BODY, FRAME_MIN_SIZE, HEADER, HEARTBEAT, METHOD, OVERHEAD, Frame, index_table
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.pass_cache import CachedPass, Credit, PassCache
from amqproxy.amqp091.tally import METHOD_COUNT, UNCOUNTED, Tally
from amqproxy.compiled.frame_input import FrameInput

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_at, long_long_at

MAX_FRAME = 512 * 1024 * 1024
"""Largest accepted frame without a negotiated limit: no broker accepts a larger message."""

MAX_HEADER = 16 * 1024 * 1024
"""Largest content header accepted from a server, whatever frame_max is: RabbitMQ limits only the bodies that it
sends (`rabbit_binary_generator:build_content_frames`).
"""

EVERY_METHOD = bytes([1]) * METHOD_COUNT

# Constants of the loop over frames as C variables, and tables by class and method id and by method index.
_METHOD = cython.declare(cython.int, METHOD)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_HEARTBEAT = cython.declare(cython.int, HEARTBEAT)
_METHOD_COUNT = cython.declare(cython.int, METHOD_COUNT)
_UNKNOWN = cython.declare(cython.int, 0xFF)
_CARRIES_CONTENT = cython.declare(cython.int, 1)
_ENDS_LANE = cython.declare(cython.int, 2)
_ENDS_LANES = cython.declare(cython.int, 4)
_SETS_LIMIT = cython.declare(cython.int, 8)
_PIECE = cython.declare(cython.Py_ssize_t, 448)
"""Size of the shared piece of input bytes that small frames refer to, unless they share the whole input."""

_ENDLESS = cython.declare(cython.ulonglong, 0 if cython.compiled else 1 << 64)
"""Modulus of unsigned 64-bit numbers for plain Python; C wraps around by itself."""

_HAS_HEADERS = cython.declare(cython.int, 0x20)
_HAS_REPLY_TO = cython.declare(cython.int, 0x02)

_TURNS = {
    "channel.close": 2,
    "channel.close-ok": 2,
    "connection.close": 4,
    "connection.close-ok": 4,
    "connection.tune-ok": 8,
}
"""Methods that change how the following frames are read."""

_TRAITS = cython.declare(bytes, bytes([cls.carries_content + _TURNS.get(cls.name, 0) for cls in BY_INDEX]))

_INDEX_OF = cython.declare(bytes, index_table())

_NAMES = {METHOD: "method", HEADER: "content header", BODY: "content body", HEARTBEAT: "heartbeat"}


@cython.final
@cython.no_gc
@cython.auto_pickle(True)
@cython.cclass
class ContentState:
    """Content state of one direction of an open channel: the frame that may come next (section 4.2.6).

    Content is in one of three states: none in progress, a header due, or body due. `contents` counts the contents
    begun. All frames of a channel that `is_watched` are returned; `is_shown` is whether those of the current content
    are.

    If it `is_lenient`, a body may be longer than its header announced. RabbitMQ 3.10 takes the rest of the channel for
    such a body, which never ends: `remaining`, of 64 bits, wraps around and never reaches 0.
    """

    def __init__(self, is_lenient: bool = False) -> None:
        self.is_lenient = is_lenient
        self.expects = METHOD
        self.index = -1
        self.remaining = 0
        self.contents = 0
        self.is_watched = False
        self.is_shown = False

    def go_on(self, expects: int, index: int, remaining: int, contents: int) -> None:
        """Continue from another state of the same channel."""
        self.expects, self.index, self.remaining, self.contents = expects, index, remaining, contents

    def advance(self, frame: Frame) -> None:
        """Process the next frame of the channel; raise `ProtocolError` if it may not come now."""
        raw: bytes = frame.raw
        p: cython.p_const_uchar = raw
        fault: cython.int = self._step(p, frame.kind, frame.index, len(raw) - 8, 0)
        if fault:
            raise self._violation(fault, frame.kind, frame.channel, frame.offset)
        frame.is_in_order = True
        frame.ordinal = self.contents
        self.is_shown = True  # read before this state existed, and so returned: the rest must be too

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _step(
        self,
        p: cython.p_const_uchar,
        kind: cython.int,
        index: cython.int,
        size: cython.longlong,
        position: cython.Py_ssize_t,
    ) -> cython.int:
        """Advance over the frame at `position`; return 0, or the number of the fault."""
        if kind == _METHOD:
            traits: cython.p_const_uchar = _TRAITS
            if self.expects != _METHOD:
                return 1
            if traits[index] & _CARRIES_CONTENT:
                self.expects = _HEADER
                self.index = index
                self.contents += 1
            return 0
        if kind == _HEADER:
            if self.expects != _HEADER:
                return 1
            if size < 12:
                return 2
            if p[position + 7] | (p[position + 8] ^ 60) | p[position + 9] | p[position + 10]:
                return 3
            self.remaining = long_long_at(p, position + 11)
            self.expects = _BODY if self.remaining > 0 else _METHOD
            return 0
        if self.expects != _BODY:
            return 1
        if cython.cast(cython.ulonglong, size) > self.remaining:
            if not self.is_lenient:
                return 4
            self.remaining += _ENDLESS
        self.remaining -= size
        if self.remaining == 0:
            self.expects = _METHOD
        return 0

    def _violation(self, fault: int, kind: int, channel: int, offset: int) -> ProtocolError:
        """Return the error for a fault, with RabbitMQ's text, except for a body that is too long, for which it has
        none.
        """
        if fault == 1:
            text = f"expected a {_NAMES[self.expects]} frame, got a {_NAMES[kind]} frame"
            kind_of_error = ErrorKind.NO_BODY_FRAME if self.expects == BODY else None
            error: ProtocolError = UnexpectedFrame(text, offset=offset, kind=kind_of_error)
        elif fault == 2:
            error = FrameError("a content header of less than 12 bytes", offset=offset + 7)
        elif fault == 3:
            text = "expected a content header of class 60 and weight 0, got another"
            error = UnexpectedFrame(text, offset=offset + 7)
        else:
            text = f"a body frame goes past the {self.remaining} bytes that its header left it"
            error = FrameError(text, offset=offset + 7, kind=ErrorKind.BODY_TOO_LONG)
        error.channel = channel
        if self.expects != METHOD:
            error.class_id = BY_INDEX[self.index].class_id
            error.method_id = BY_INDEX[self.index].method_id
        return error


@cython.cfunc
@cython.exceptval(check=False)
def _is_plain_header(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, length: cython.Py_ssize_t, method: cython.Py_ssize_t
) -> cython.bint:
    """Whether the frame at a place is a complete content header of the same channel as the one at `method`, and plain.

    It is plain if its flags show that it has no reply-to, and no headers, or headers without the bytes "CC": a header
    named CC or BCC contains them. Nothing is decoded; a header that is not plain may still have no such names.
    """
    size: cython.longlong
    i: cython.Py_ssize_t
    if length - at < 7 + 14 + 1 or p[at] != _HEADER or p[at + 1] != p[method + 1] or p[at + 2] != p[method + 2]:
        return False
    size = long_at(p, at + 3)
    if size < 14 or length - at < size + 8 or p[at + 19] & _HAS_REPLY_TO:
        return False
    if p[at + 19] & _HAS_HEADERS:
        for i in range(at + 21, at + size + 6):
            if p[i] == 67 and p[i + 1] == 67:  # CC
                return False
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _has_body_within(
    p: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
    method: cython.Py_ssize_t,
    largest: cython.ulonglong,
) -> cython.bint:
    """Whether the frame at a place is a content header of the same channel as the one at `method`, and announces a body
    of at most `largest` bytes.
    """
    if length - at < 7 + 12 or p[at] != _HEADER or p[at + 1] != p[method + 1] or p[at + 2] != p[method + 2]:
        return False
    return long_at(p, at + 3) >= 14 and long_long_at(p, at + 11) <= largest


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _write(
    out: cython.p_uchar, at: cython.Py_ssize_t, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write bytes from `start` to `end` at a place; return the place after them."""
    if not cython.compiled:
        out[at : at + end - start] = data[start:end]
        return at + end - start
    p: cython.p_const_uchar = data
    i: cython.Py_ssize_t
    for i in range(end - start):
        out[at + i] = p[start + i]
    return at + end - start


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class FrameReader(FrameInput):
    """One direction of a connection: reads bytes, and returns complete frames in each channel's legal order.

    `want` with `content` selects headers, bodies and heartbeats. Frames of a channel without a content state are always
    returned.

    With `unseen`, a content is returned only if its method is; `unseen` holds payloads of wanted methods that are not
    returned, unless the channel is watched. Some of them are replaced by others: `between` returns the bytes to send.
    `spending` are the allowances that were used; their owner takes and refills them.

    With a `quantum`, a command whose end is near is returned whole.

    `header_max` limits content headers if it exceeds `frame_max`. `is_lenient` applies to its content states.
    """

    def __init__(
        self,
        tally: Tally | None = None,
        *,
        frame_max: int = FRAME_MIN_SIZE,
        header_max: int = 0,
        offset: int = 0,
    ) -> None:
        super().__init__(UNCOUNTED if tally is None else tally, offset)
        self.error: ProtocolError | None = None
        self.header_max = header_max
        self.content_states: dict[int, ContentState] = {}
        self.is_lenient = False
        self.unseen: PassCache | None = None
        self.spending: list[Credit] = []
        self._splices: list[tuple[int, CachedPass]] = []
        self._next_splice = 0
        self._recent: ContentState | None = None
        self._recent_channel = -1
        self.set_frame_max(frame_max)
        self.want(EVERY_METHOD, content=True)

    def set_frame_max(self, frame_max: int) -> None:
        """Limit frames to `frame_max` bytes from now on; 0 means unlimited (section 4.2.3).

        As in RabbitMQ, the limit applies to the payload alone: some clients count it so. The reader applies the limit
        of a tune-ok in its stream by itself.
        """
        self.frame_max = frame_max
        self._payload_max = frame_max if frame_max > 0 else MAX_FRAME

    def set_lenient(self, is_lenient: bool) -> None:
        """Set whether illegal order that RabbitMQ tolerates passes, on all channels; see `ContentState`."""
        self.is_lenient = is_lenient
        for content_state in self.content_states.values():
            content_state.is_lenient = is_lenient

    def open_content_state(self, channel: int) -> ContentState:
        """Check the order of the channel's frames from now on, until its peer closes it, or the connection."""
        content_state = self.content_states[channel] = ContentState(self.is_lenient)
        self._recent_channel = -1
        return content_state

    def close_content_state(self, channel: int) -> None:
        """Stop checking the order of the channel's frames, which becomes the receiver's task."""
        self.content_states.pop(channel, None)
        self._recent_channel = -1

    @cython.cfunc
    def _begin(self) -> object:
        if self._splices:
            self._splices = []
            self._next_splice = 0
        return FrameInput._begin(self)

    @cython.ccall
    def between(self, start: cython.longlong, end: cython.longlong) -> bytes | memoryview:
        splices = self._splices
        number: cython.Py_ssize_t = self._next_splice
        offset: cython.longlong
        growth: cython.Py_ssize_t = 0
        passes: CachedPass
        while number < len(splices) and splices[number][0] < start:
            number += 1
        first: cython.Py_ssize_t = number
        last: cython.Py_ssize_t
        while number < len(splices):
            offset, passes = splices[number]
            if offset >= end:
                break
            growth += len(passes._encoded) - len(passes.payload) - 8
            number += 1
        self._next_splice = last = number
        origin: cython.longlong = self.taken_from
        if first == last:
            return FrameInput.between(self, start, end)
        spliced = bytearray(end - start + growth)
        out: cython.p_uchar = spliced
        at: cython.Py_ssize_t = 0
        position: cython.Py_ssize_t = start - origin
        until: cython.Py_ssize_t
        for number in range(first, last):
            offset, passes = splices[number]
            until = offset - origin + 3  # its kind and its channel
            at = self._copy(out, at, position, until)
            at = _write(out, at, passes._encoded, 3, len(passes._encoded))
            position = until + len(passes.payload) + 5
        self._copy(out, at, position, end - origin)
        return memoryview(spliced)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _copy(
        self, out: cython.p_uchar, at: cython.Py_ssize_t, start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Write the bytes from `start` to `end` of `taken`, without joining its pieces."""
        size: cython.Py_ssize_t = len(self._head)
        if start < size:
            at = _write(out, at, self._head, start, min(end, size))
            start = size
        if start < end:
            at = _write(out, at, self._data, start - size + self._start, end - size + self._start)
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _scan(
        self,
        data: bytes,
        start: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        frames: list,  # type: ignore[type-arg]
    ) -> cython.Py_ssize_t:
        """Process the complete frames in `data` from `start` on; return the place where they end."""
        p: cython.p_const_uchar = data
        wants: cython.p_const_uchar = self._wants
        traits: cython.p_const_uchar = _TRAITS
        index_of: cython.p_const_uchar = _INDEX_OF
        frames_seen: cython.ulonglong[::1] = self.tally._frames  # type: ignore[type-arg, valid-type, assignment]
        bytes_seen: cython.ulonglong[::1] = self.tally._byte_counts  # type: ignore[type-arg, valid-type, assignment]
        position: cython.Py_ssize_t = start
        base: cython.longlong = self.offset - start
        whole: cython.longlong
        size: cython.longlong
        kind: cython.int
        channel: cython.int
        index: cython.int
        slot: cython.int
        fault: cython.int
        is_wanted: cython.int
        content_state: ContentState | None
        frame: Frame
        zero_copy: cython.bint = self.zero_copy
        piece: bytes = b""
        piece_start: cython.Py_ssize_t = start
        piece_end: cython.Py_ssize_t = start
        unseen: PassCache | None = self.unseen
        passes: CachedPass | None
        handed_over: cython.Py_ssize_t = 0
        quantum: cython.Py_ssize_t = self.quantum or length  # the input is too short for a pause
        while True:
            if length - position < 7:
                self._missing = 7 - (length - position)
                return position
            kind = p[position]
            channel = (p[position + 1] << 8) | p[position + 2]
            size = long_at(p, position + 3)
            if (size > self._payload_max and (kind != _HEADER or size > self.header_max)) or (
                kind != _HEARTBEAT and not 1 <= kind <= 3
            ):
                self._refuse_head(kind, size, base + position)
                return position
            whole = size + 8
            if length - position < whole:
                self._missing = whole - (length - position)
                return position
            if p[position + whole - 1] != 0xCE:
                self._refuse_end(p[position + whole - 1], base + position + whole - 1)
                return position

            if channel == self._recent_channel:
                content_state = self._recent
            else:
                content_state = self.content_states.get(channel)
                self._recent = content_state
                self._recent_channel = channel

            index = -1
            if kind == _METHOD:
                index = _UNKNOWN
                if size >= 4 and p[position + 7] | p[position + 9] == 0:
                    index = index_of[p[position + 8] * 256 + p[position + 10]]
                if index == _UNKNOWN:
                    self._refuse_method(p[position : position + whole], base + position)
                    return position
                slot = index
                is_wanted = wants[index] or content_state is None
                if content_state is not None:
                    if content_state.is_watched:
                        is_wanted = True
                    elif unseen is not None and is_wanted:
                        passes = unseen._find(p, position + 7, position + whole - 1)
                        if (
                            passes is not None
                            and (not passes.if_plain or _is_plain_header(p, position + whole, length, position))
                            and (
                                passes.largest < 0
                                or _has_body_within(p, position + whole, length, position, passes.largest)
                            )
                            and (not passes.allowances or passes._may_pass(len(frames), self.spending))
                        ):
                            passes.count += 1
                            is_wanted = False
                            if passes._encoded:
                                self._splices.append((base + position, passes))
                if is_wanted and handed_over >= quantum:
                    self.is_paused = True
                    return position
                if content_state is not None:
                    content_state.is_shown = is_wanted != 0 and (unseen is not None or self._wants_content)
            elif kind == _HEARTBEAT:
                if channel != 0 or size != 0:
                    self._refuse_heartbeat(channel, base + position)
                    return position
                slot = 4 * _METHOD_COUNT
                is_wanted = self._wants_content
            elif content_state is None:
                slot = 3 * _METHOD_COUNT + kind - _HEADER
                is_wanted = True
            else:
                slot = (kind - 1) * _METHOD_COUNT + max(content_state.index, 0)
                is_wanted = self._wants_content or content_state.is_shown or content_state.is_watched
            if is_wanted and handed_over >= 4 * quantum:
                self.is_paused = True
                return position

            if content_state is not None and kind != _HEARTBEAT:
                fault = content_state._step(p, kind, index, size, position)
                if fault:
                    self.error = content_state._violation(fault, kind, channel, base + position)
                    return position
            if kind == _METHOD and traits[index] > _CARRIES_CONTENT:
                self._turn(traits[index], channel, p[position + 11 : position + whole - 1])
            self.frames += 1
            frames_seen[slot] += 1  # type: ignore[index]
            bytes_seen[slot] += whole  # type: ignore[index]

            if is_wanted:
                frame = Frame._blank()
                if zero_copy:
                    frame._buffer = data
                    frame._start = position
                    frame._end = position + whole
                else:
                    if position + whole > piece_end:
                        piece_start = position
                        piece_end = min(length, position + max(whole, _PIECE))
                        piece = p[piece_start:piece_end]
                    frame._buffer = piece
                    frame._start = position - piece_start
                    frame._end = position + whole - piece_start
                frame.offset = base + position
                frame.kind = kind
                frame.channel = channel
                frame.index = index
                frame.is_in_order = content_state is not None
                frame.ordinal = content_state.contents if content_state is not None else 0
                frames.append(frame)
                handed_over += 1
            position += whole

    def _turn(self, trait: int, channel: int, arguments: bytes) -> None:
        """Apply a method that changes how the following frames are read."""
        if trait == _ENDS_LANE:
            self.close_content_state(channel)
        elif trait == _ENDS_LANES and channel == 0:
            self.content_states.clear()
            self._recent_channel = -1
        elif trait == _SETS_LIMIT and channel == 0 and len(arguments) >= 6:
            self.set_frame_max(int.from_bytes(arguments[2:6]))

    def _refuse_head(self, kind: int, size: int, position: int) -> None:
        at = position
        most = self._payload_max if kind != HEADER else max(self._payload_max, self.header_max)
        if size > most:
            self.error = FrameError(f"a frame of {size} bytes, where {most} is the most", offset=at + 3)
        else:
            self.error = FrameError(f"unknown frame type {kind}", offset=at)

    def _refuse_end(self, byte: int, position: int) -> None:
        self.error = FrameError(f"a frame ends in 0x{byte:02x} instead of 0xce", offset=position)

    def _refuse_heartbeat(self, channel: int, position: int) -> None:
        at = position
        if channel:
            self.error = UnexpectedFrame(f"a heartbeat on channel {channel}", offset=at + 1)
        else:
            self.error = FrameError("a heartbeat with a payload", offset=at + 3)

    def _refuse_method(self, raw: bytes, position: int) -> None:
        at = position + 7
        if len(raw) < OVERHEAD + 4:
            self.error = FrameError("a method frame too short to name a method", offset=at)
            return
        class_id, method_id = int.from_bytes(raw[7:9]), int.from_bytes(raw[9:11])
        self.error = CommandInvalid(
            f"unknown method {class_id}.{method_id}",
            offset=at,
            class_id=class_id,
            method_id=method_id,
        )
