"""Counter of the messages of one 0-10 connection, from its frames as the client sends and receives them.

A client's message.transfer is a publish, confirmed when the server has completed or accepted it, unless it is in a
transaction; a server's is a delivery, which the client accepts, rejects, or releases. Any other command of the client
is a request, and its result or its completion the reply. This module may be compiled.

All of it is in one module, because the compiler inlines only within a module, and all of it runs for every frame.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amqproxy.amqp010.command_ids import position_of
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.commands import (
    DtxEnd,
    DtxSelect,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    ConnectionOpen,
    ConnectionOpenOk,
    SessionAttach,
    SessionAttached,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.domains import AcceptMode, RejectCode
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import (
    BODY,
    COMMAND,
    COMMAND_TRACK,
    CONTROL,
    OVERHEAD,
    decode_header,
    decode_method,
    index_table,
)
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.taps.metering.amqp010.message_run import Amqp010MessageRun
from amqproxy.taps.metering.amqp010.open_requests import OpenRequest, OpenRequests, RequestObserver, complete
from amqproxy.taps.metering.amqp010.open_transfers import MAX_RUNS_OF_CONNECTION, OpenTransfers
from amqproxy.taps.metering.distribution import Distribution
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import UNKNOWN_CONSUMER

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_at, short_at
    from amqproxy.taps.metering.amqp010.message_run import arguments_at, may_be_redelivered, needs_no_acceptance

MAX_REQUESTS = 4096
"""Limit on the requests of a connection that await their replies; others are not measured."""

MAX_CONSUMERS = 4096
"""Limit on the subscriptions of a connection that are counted."""


def _table(*methods: type[Method]) -> bytes:
    """Return a table with a 1 at the index of each method."""
    return bytes([cls in methods for cls in BY_INDEX])


_MASK = cython.declare(cython.longlong, 0xFFFF_FFFF)
"""Mask of a 32-bit command id; as a literal, a number of this size would be a Python object."""
_CONTROL = cython.declare(cython.int, CONTROL)
_COMMAND = cython.declare(cython.int, COMMAND)
_COMMAND_TRACK = cython.declare(cython.int, COMMAND_TRACK)
_BODY = cython.declare(cython.int, BODY)
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_INDEX_OF = cython.declare(bytes, index_table())
_SEGMENTS = cython.declare(bytes, bytes([cls.segment for cls in BY_INDEX]))

_TRANSFER = cython.declare(cython.int, MessageTransfer.index)
_ACCEPT = cython.declare(cython.int, MessageAccept.index)
_REJECT = cython.declare(cython.int, MessageReject.index)
_COMPLETED = cython.declare(cython.int, SessionCompleted.index)
_RESULT = cython.declare(cython.int, ExecutionResult.index)
_EXCEPTION = cython.declare(cython.int, ExecutionException.index)
_UNROUTABLE = cython.declare(cython.int, RejectCode.UNROUTABLE)
_IMMEDIATE = cython.declare(cython.int, RejectCode.IMMEDIATE)

_SETTLES = cython.declare(bytes, _table(MessageAccept, MessageReject, MessageRelease))
_NOT_ASKED = cython.declare(bytes, _table(MessageFlow, MessageSetFlowMode, MessageStop))
"""The client's commands that only grant or withdraw credit."""

_COUNTED = cython.declare(
    bytes,
    _table(
        ConnectionOpen,
        ConnectionOpenOk,
        SessionAttach,
        SessionAttached,
        SessionCompleted,
        SessionDetach,
        SessionDetached,
    ),
)
"""The controls that affect counts."""

_PUBLISHED = cython.declare(cython.int, Count.PUBLISHED)
_CONFIRMED = cython.declare(cython.int, Count.CONFIRMED)
_NACKED = cython.declare(cython.int, Count.NACKED)
_RETURNED = cython.declare(cython.int, Count.RETURNED)
_DELIVERED = cython.declare(cython.int, Count.DELIVERED)
_REDELIVERED = cython.declare(cython.int, Count.REDELIVERED)
_AUTO_ACKED = cython.declare(cython.int, Count.AUTO_ACKED)
_ACKED = cython.declare(cython.int, Count.ACKED)
_REJECTED = cython.declare(cython.int, Count.REJECTED)
_REQUEUED = cython.declare(cython.int, Count.REQUEUED)
_UNTIMED = cython.declare(cython.int, Count.UNTIMED)
_UNCONFIRMED = cython.declare(cython.int, Count.UNCONFIRMED)
_UNACKED = cython.declare(cython.int, Count.UNACKED)
_CONSUMERS = cython.declare(cython.int, Count.CONSUMERS)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _position_of(command_id: cython.longlong, near: cython.longlong) -> cython.longlong:
    """Return the position of a command id, as `command_ids.position_of` does."""
    distance: cython.longlong = (command_id - near) & _MASK
    return near + distance - (distance >> 31 << 32)


@cython.final
@cython.no_gc
@cython.cclass
class SendingPeer:
    """Sending state of one peer in a session: the current transfer, if any, and the `last` command's position.

    The position is valid if `has_position`; `payload` is that of the transfer's first frame, if it is whole.
    """

    def __init__(self) -> None:
        self.last = 0
        self.is_under_way = False
        self.has_position = False
        self.is_accepted = False
        self.is_redelivered = False
        self.size = 0
        self.payload = b""

    @cython.cfunc
    @cython.exceptval(check=False)
    def passed(self, number: cython.longlong, count: cython.longlong) -> cython.longlong:
        """Note that `count` commands have begun, the first with this id, or -1; return the position of the first."""
        first: cython.longlong = self.last + 1
        self.has_position = number >= 0
        if number >= 0:
            if first & _MASK != number:
                first = _position_of(number, first)
            self.last = first + count - 1
        return first


@cython.cfunc
@cython.exceptval(check=False)
def _set_at(
    p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, index: cython.int
) -> cython.Py_ssize_t:
    """Return the offset of the size-prefixed id set of a session.completed, message.accept, reject or release.

    0 if there is none, -1 if anything is malformed.
    """
    found: cython.Py_ssize_t = 0
    present: cython.int
    at = at + 2 if index == _COMPLETED else arguments_at(p, at, end)
    if at < 0 or end - at < 2:
        return -1
    present = p[at] | p[at + 1] << 8
    if present >> (1 if index == _ACCEPT else 3 if index == _REJECT else 2):
        return -1
    at += 2
    if present & 1:
        if end - at < 2 or short_at(p, at) & 7:
            return -1
        found = at
        at += 2 + short_at(p, at)
    if index == _REJECT:
        at += present & 2  # its code, of two bytes
        if present & 4:
            if at >= end:
                return -1
            at += 1 + p[at]
    return found if at == end else -1


@cython.cfunc
@cython.exceptval(check=False)
def _reject_code(p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
    """Return the code of a well-formed message.reject; -1 if it has none."""
    present: cython.int = p[at + 4]
    at += 6
    if present & 1:
        at += 2 + short_at(p, at)
    return short_at(p, at) if present & 2 else -1


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_redelivered(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether a header is marked as redelivered; it is decoded only if it may be."""
    if not may_be_redelivered(p, at, end):
        return False
    try:
        properties = decode_header(bytes(p[at:end])).delivery
    except ProtocolError:
        return False
    return properties is not None and properties.redelivered


@cython.cfunc
def _method(kind: cython.int, p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> Any:
    """Return the control or command between two offsets; `None` if it is malformed, which the broker answers."""
    try:
        return decode_method(kind, bytes(p[at:end]))
    except ProtocolError:
        return None


class Subscribed(NamedTuple):
    """A subscription: its queue and its modes."""

    queue: str
    no_ack: bool
    exclusive: bool


@cython.final
@cython.cclass
class AttachmentMeter:
    """Meter of one attachment of a session to a channel: its open transfers, and the number of either peer's.

    It `is_resumed` if the client has sent commands before it: in an earlier attachment, or ahead of session.attached.
    """

    def __init__(self) -> None:
        self.consumers: dict[str, Subscribed] = {}
        self.published = self.delivered = 0
        self.is_transactional = False
        self.is_distributed = False
        self.is_resumed = False
        self._publishes: OpenTransfers | None = None
        self._deliveries: OpenTransfers | None = None
        self._requests: OpenRequests | None = None
        self._client = SendingPeer()
        self._server = SendingPeer()

    @property
    def unconfirmed(self) -> int:
        """Number of publishes neither confirmed nor nacked."""
        return 0 if self._publishes is None else self._publishes.count

    @property
    def unacked(self) -> int:
        """Number of deliveries that the client has to settle."""
        return 0 if self._deliveries is None else self._deliveries.count

    @property
    def requests(self) -> int:
        """Number of the client's commands that await their replies."""
        return 0 if self._requests is None else len(self._requests)

    # --- snapshots

    @property
    def has_forgotten(self) -> bool:
        """Whether more publishes or deliveries may be open than those that are counted."""
        return any(each is not None and each.has_forgotten for each in (self._publishes, self._deliveries))

    def open_publishes(self, most: int, offset_ns: int) -> tuple[Span, ...]:
        """Return the newest runs of unconfirmed publishes, as `OpenTransfers.spans` does."""
        return () if self._publishes is None else self._publishes.spans(most, offset_ns, None)

    def open_deliveries(self, most: int, offset_ns: int) -> tuple[Span, ...]:
        """Return the newest runs of unsettled deliveries, as `OpenTransfers.spans` does."""
        return () if self._deliveries is None else self._deliveries.spans(most, offset_ns, UNKNOWN_CONSUMER)

    def open_requests(self) -> list[tuple[int, OpenRequest]]:
        """Return the client's commands that await their replies, with the position of each."""
        return [] if self._requests is None else list(self._requests)

    def last(self, is_server: bool) -> int:
        """Return the position of a peer's last command; 0 before the first."""
        peer: SendingPeer = self._server if is_server else self._client
        return peer.last

    def transfer(self, is_server: bool) -> bytes | None:
        """Return the payload of a peer's message.transfer under way, b"" if unknown; `None` if there is none."""
        peer: SendingPeer = self._server if is_server else self._client
        return peer.payload if peer.is_under_way else None


@cython.final
@cython.cclass
class Amqp010Meter:
    """Meter of one connection, from its first frame. Adds to `counts`; an `observer` is shown the client's requests.

    It is fed whole frames that a `FrameReader` has passed, in order, with the time in seconds of any monotonic clock.
    A message counts once it is complete. The state of all its sessions is bounded for the connection:
    `counts_all_consumers` is false once there were too many subscriptions.
    """

    def __init__(self, counts: MessageCounts, observer: RequestObserver | None = None) -> None:
        self._counts = counts
        self._observer = observer
        self._run = Amqp010MessageRun()
        self._sessions: dict[int, AttachmentMeter] = {}
        self._asked: dict[int, tuple[str, float]] = {}
        self._recent: AttachmentMeter | None = None
        self._recent_channel = -1
        self._client_numbers = CommandNumbering()
        self._server_numbers = CommandNumbering()
        self._run_room = Budget(MAX_RUNS_OF_CONNECTION)
        self._request_room = Budget(MAX_REQUESTS)
        self._consumer_room = Budget(MAX_CONSUMERS)
        self.counts_all_consumers = True

    def session(self, channel: int) -> AttachmentMeter | None:
        """Return the meter of the session on a channel; `None` if there is none."""
        return self._sessions.get(channel)

    def last_commands(self, channel: int) -> tuple[int, int] | None:
        """Return the positions of the last commands of the client, and of the server, that have begun on a channel.

        -1 before a peer's first command; `None` if its ids are unknown.
        """
        session = self._sessions.get(channel)
        ours, theirs = self._client_numbers.following(channel), self._server_numbers.following(channel)
        if session is None or ours is None:
            return None
        published = position_of(ours, session.last(False) + 1) - 1
        if theirs is None:  # a broker that has sent no command yet tells the number of its first one only then
            return None if session.last(True) or session.is_resumed else (published, -1)
        return published, position_of(theirs, session.last(True) + 1) - 1

    def commands_under_way(self, channel: int) -> list[bool]:
        """Return whether the server sends a command that is incomplete, for each of these on a channel."""
        numbers = (self._client_numbers, self._server_numbers)
        return [is_server for is_server in (False, True) if numbers[is_server].current(channel) is not None]

    def _note_numbering(self, is_server: bool, channel: int) -> None:
        """Note a session.command-point of the client that is not the beginning of its commands."""
        session = self._sessions.get(channel)
        if session is not None and not is_server and self._client_numbers.following(channel):
            session.is_resumed = True

    def feed(
        self, is_server: cython.bint, data: bytes | memoryview, now: cython.double, is_cut: cython.bint = False
    ) -> None:
        """Take whole frames of the server, or of the client. Raises `ValueError` if they are not whole.

        If `is_cut`, only the first twelve bytes of a body frame are present, and an `Amqp010MessageRun` may stand for
        messages.
        """
        length: cython.Py_ssize_t = len(data)
        if not length:
            return
        p: cython.p_const_uchar
        if cython.compiled:
            p = cython.address(data[0])
        else:
            p = data  # type: ignore[assignment]
        index_of: cython.p_const_uchar = _INDEX_OF
        segments: cython.p_const_uchar = _SEGMENTS
        counted: cython.p_const_uchar = _COUNTED
        numbers: CommandNumbering = self._server_numbers if is_server else self._client_numbers
        position: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        end: cython.Py_ssize_t
        kind: cython.int
        flags: cython.int
        index: cython.int
        channel: cython.int
        number: cython.longlong
        while position < length:
            end = self._take_runs(is_server, p, position, length, now, is_cut)
            if end > position:
                position = end
                continue
            size = short_at(p, position + 2) if length - position >= _OVERHEAD else 0
            kind = p[position + 1] if size else 0
            end = position + (_OVERHEAD if is_cut and kind == _BODY else size)
            if size < _OVERHEAD or end > length:
                raise ValueError(f"frames that are not whole, {position} bytes into {length}")
            flags = p[position]
            channel = short_at(p, position + 6)
            if kind > _COMMAND:
                numbers.pass_frame(channel, kind, flags)
                self._take_content(is_server, channel, kind, flags, p, position, size, now)
                position = end
                continue
            index = -1
            if flags & 2 and size >= _OVERHEAD + 2:
                index = index_of[short_at(p, position + 12)]
                if index == 255 or segments[index] != kind:
                    index = -1
            if p[position + 5] == _COMMAND_TRACK:
                number = numbers.pass_frame(channel, kind, flags)
                if kind == _COMMAND and index >= 0:
                    self._take_command(is_server, channel, index, flags, number, p, position + _OVERHEAD, end, now)
            elif index >= 0:
                if numbers.is_changed_by(index):
                    numbers.apply(channel, index, flags, bytes(p[position + _OVERHEAD : end]))
                    self._note_numbering(is_server, channel)
                if counted[index] and flags & 3 == 3:
                    self._take_control(is_server, channel, index, p, position + _OVERHEAD, end, now)
            position = end

    def close(self) -> None:
        """End all sessions, since the connection has ended."""
        for channel in list(self._sessions):
            self._end(channel)

    # --- sessions

    @cython.cfunc
    def _session(self, channel: cython.int) -> AttachmentMeter | None:
        """Return the meter of the session on a channel; `None` if there is none."""
        if channel != self._recent_channel:
            self._recent = self._sessions.get(channel)
            self._recent_channel = channel
        return self._recent

    @cython.cfunc
    def _begun(self, channel: cython.int) -> AttachmentMeter:
        """Return the meter of the session on a channel; begin one if its attachment was not seen."""
        session = self._session(channel)
        return self._begin(channel) if session is None else session

    @cython.cfunc
    def _begin(self, channel: cython.int) -> AttachmentMeter:
        self._recent_channel = -1
        session = self._sessions[channel] = AttachmentMeter()
        return session

    def _end(self, channel: int) -> None:
        session: AttachmentMeter | None = self._sessions.pop(channel, None)
        self._recent_channel = -1
        if session is None:
            return
        counts: MessageCounts = self._counts
        counts._values[_UNCONFIRMED] -= session.unconfirmed
        counts._values[_UNACKED] -= session.unacked
        counts._values[_CONSUMERS] -= len(session.consumers)
        self._consumer_room.give(len(session.consumers))
        for opened in (session._publishes, session._deliveries, session._requests):
            if opened is not None:
                opened.clear()
        if self._observer is not None:
            self._observer.end_session(channel)

    @cython.cfunc
    def _take_control(
        self,
        is_server: cython.bint,
        channel: cython.int,
        index: cython.int,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        now: cython.double,
    ) -> object:
        if index == _COMPLETED:
            session = self._session(channel)
            if is_server and session is not None:
                self._complete(session, p, _set_at(p, at, end, index), now)
            return None
        method = _method(_CONTROL, p, at, end)
        if isinstance(method, SessionAttach | ConnectionOpen):
            if not is_server and len(self._asked) < MAX_REQUESTS:
                self._asked[channel] = method.name, now
        elif isinstance(method, SessionAttached | ConnectionOpenOk):
            asked = self._asked.pop(channel, None)
            if asked is not None and is_server:
                self._counts.observe_request(asked[0], now - asked[1])
            if isinstance(method, SessionAttached):
                self._end(channel)
                self._begin(channel).is_resumed = bool(self._client_numbers.following(channel))
        elif method is not None:  # session.detach, session.detached
            self._end(channel)
        return None

    # --- messages that are whole in one read, one after another on one channel: nearly all there are

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_runs(
        self,
        is_server: cython.bint,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        now: cython.double,
        is_cut: cython.bint,
    ) -> cython.Py_ssize_t:
        """Take the runs of transfers that begin at `at`; return the offset after them."""
        run = self._run
        sizes: Distribution = self._counts.delivered_bytes if is_server else self._counts.published_bytes
        channel: cython.int = 0
        is_accepted: cython.bint = False
        count: cython.longlong = 0
        end: cython.Py_ssize_t
        while True:
            end = run.restore(p, at, length) if is_cut else run.take(is_server, p, at, length)
            if count and (end == at or run.channel != channel or run.is_accepted != is_accepted):
                self._note_transfers(is_server, channel, count, is_accepted, now)
                count = 0
            if end == at:
                return at
            sizes.observe(run.size, run.count)
            channel = run.channel
            is_accepted = run.is_accepted
            count += run.count
            at = end

    @cython.cfunc
    def _note_transfers(
        self,
        is_server: cython.bint,
        channel: cython.int,
        count: cython.longlong,
        is_accepted: cython.bint,
        now: cython.double,
    ) -> object:
        """Number and count `count` whole messages."""
        session: AttachmentMeter = self._begun(channel)
        peer: SendingPeer = session._server if is_server else session._client
        numbers: CommandNumbering = self._server_numbers if is_server else self._client_numbers
        first: cython.longlong = peer.passed(numbers.pass_commands(channel, count), count)
        peer.is_under_way = False
        self._note(is_server, session, is_accepted, peer.has_position, first, count, now)
        return None

    @cython.cfunc
    def _note(
        self,
        is_server: cython.bint,
        session: AttachmentMeter,
        is_accepted: cython.bint,
        has_position: cython.bint,
        first: cython.longlong,
        count: cython.longlong,
        now: cython.double,
    ) -> object:
        """Count messages, and open those that await a settlement, beginning at position `first`."""
        counts: MessageCounts = self._counts
        opened: OpenTransfers | None
        before: cython.longlong
        if not is_server:
            session.published += count
            counts._values[_PUBLISHED] += count
            if not has_position or session.is_transactional:
                return None
            opened = session._publishes
            if opened is None:
                opened = session._publishes = OpenTransfers(self._run_room)
            before = opened.count
            opened.add(first, now, count)
            counts._values[_UNCONFIRMED] += opened.count - before
            return None
        session.delivered += count
        counts._values[_DELIVERED] += count
        if is_accepted:
            counts._values[_AUTO_ACKED] += count
        elif has_position:
            opened = session._deliveries
            if opened is None:
                opened = session._deliveries = OpenTransfers(self._run_room)
            before = opened.count
            opened.add(first, now, count)
            counts._values[_UNACKED] += opened.count - before
        return None

    # --- commands as their frames come

    @cython.cfunc
    def _take_content(
        self,
        is_server: cython.bint,
        channel: cython.int,
        kind: cython.int,
        flags: cython.int,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
        now: cython.double,
    ) -> object:
        """Take the header or body frame that begins at `at`."""
        session = self._session(channel)
        peer: SendingPeer
        if session is None:
            return None
        peer = session._server if is_server else session._client
        if not peer.is_under_way:
            return None
        if kind == _BODY:
            peer.size += size - _OVERHEAD
        elif is_server:
            peer.is_redelivered = flags & 3 == 3 and _is_redelivered(p, at + _OVERHEAD, at + size)
        if flags & 5 == 5:
            self._finish(is_server, session, peer, now)
        return None

    @cython.cfunc
    def _take_command(
        self,
        is_server: cython.bint,
        channel: cython.int,
        index: cython.int,
        flags: cython.int,
        number: cython.longlong,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        now: cython.double,
    ) -> object:
        """Take the first frame of a command, which begins at `at`; `number` is its id, or -1."""
        session: AttachmentMeter = self._begun(channel)
        peer: SendingPeer = session._server if is_server else session._client
        settles: cython.p_const_uchar = _SETTLES
        not_asked: cython.p_const_uchar = _NOT_ASKED
        position: cython.longlong = peer.passed(number, 1)
        if index == _TRANSFER:
            peer.is_under_way = True
            peer.size = 0
            peer.is_redelivered = False
            peer.is_accepted = is_server and flags & 3 == 3 and needs_no_acceptance(p, at, end)
            if flags & 5 == 5:
                self._finish(is_server, session, peer, now)
            else:
                peer.payload = bytes(p[at:end]) if flags & 3 == 3 else b""
            return None
        peer.is_under_way = False
        if flags & 3 != 3 or not_asked[index]:
            return None
        if settles[index]:
            self._take_settlement(is_server, session, index, p, at, end, now)
        elif not is_server or index == _RESULT or index == _EXCEPTION:  # noqa: SIM109 - C has no tuples
            method = _method(_COMMAND, p, at, end)
            if isinstance(method, ExecutionResult | ExecutionException):
                if is_server and method.command_id is not None:
                    number = _position_of(method.command_id, session._client.last)
                    if index == _RESULT:
                        self._answer(session, number, number, now)
                    elif session._requests is not None:
                        session._requests.refuse(number)
            elif method is not None:
                self._take_request(channel, session, method, position, bytes(p[at:end]), now)
        return None

    @cython.cfunc
    def _finish(
        self, is_server: cython.bint, session: AttachmentMeter, peer: SendingPeer, now: cython.double
    ) -> object:
        """Count a transfer that is complete."""
        counts: MessageCounts = self._counts
        peer.is_under_way = False
        peer.payload = b""
        if is_server:
            counts.delivered_bytes.observe(peer.size)
            counts._values[_REDELIVERED] += peer.is_redelivered
        else:
            counts.published_bytes.observe(peer.size)
        self._note(is_server, session, peer.is_accepted, peer.has_position, peer.last, 1, now)
        return None

    # --- what becomes of them

    @cython.cfunc
    def _complete(
        self, session: AttachmentMeter, p: cython.p_const_uchar, at: cython.Py_ssize_t, now: cython.double
    ) -> object:
        """Confirm and answer the commands in the id set at `at`, if there is one: the server has completed them."""
        first: cython.longlong
        last: cython.longlong
        end: cython.Py_ssize_t
        if at <= 0:
            return None
        end = at + 2 + short_at(p, at)
        at += 2
        while at < end:
            last = _position_of(long_at(p, at + 4), session._client.last)
            first = last - ((long_at(p, at + 4) - long_at(p, at)) & _MASK)
            self._confirm(session, _CONFIRMED, first, last, now)
            self._answer(session, first, last, now)
            at += 8
        return None

    @cython.cfunc
    def _take_settlement(
        self,
        is_server: cython.bint,
        session: AttachmentMeter,
        index: cython.int,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        now: cython.double,
    ) -> object:
        """Take a message.accept, message.reject or message.release."""
        peer: SendingPeer = session._client if is_server else session._server
        place: cython.Py_ssize_t = _set_at(p, at, end, index)
        code: cython.int = -1
        outcome: cython.int
        first: cython.longlong
        last: cython.longlong
        count: cython.longlong
        if place <= 0:
            return None
        if is_server:
            outcome = _CONFIRMED if index == _ACCEPT else _NACKED
            if index == _REJECT:
                code = _reject_code(p, at)
        else:
            outcome = _ACKED if index == _ACCEPT else _REJECTED if index == _REJECT else _REQUEUED
        end = place + 2 + short_at(p, place)
        place += 2
        while place < end:
            last = _position_of(long_at(p, place + 4), peer.last)
            first = last - ((long_at(p, place + 4) - long_at(p, place)) & _MASK)
            if is_server:
                count = self._confirm(session, outcome, first, last, now)
                if code == _UNROUTABLE or code == _IMMEDIATE:  # noqa: SIM109 - C has no tuples
                    self._counts._values[_RETURNED] += count
            else:
                self._settle(session, outcome, first, last, now)
            place += 8
        return None

    @cython.cfunc
    def _answer(
        self, session: AttachmentMeter, first: cython.longlong, last: cython.longlong, now: cython.double
    ) -> object:
        """Measure the requests in a range, which have their replies."""
        if session._requests is not None and session.requests:
            answered = session._requests.settle(first, last)
            for request in answered:
                self._counts.observe_request(request.name, now - request.asked)
            complete(answered)
        return None

    @cython.cfunc
    def _take_request(
        self,
        channel: cython.int,
        session: AttachmentMeter,
        method: Method,
        position: cython.longlong,
        payload: bytes,
        now: cython.double,
    ) -> object:
        """Take a command of the client that has a reply, and that was read from `payload`."""
        counts: MessageCounts = self._counts
        if isinstance(method, MessageSubscribe):
            destination = method.destination or ""
            if destination in session.consumers:
                pass
            elif not self._consumer_room.take(1):
                self.counts_all_consumers = False
            else:
                no_ack = method.accept_mode == AcceptMode.NONE
                session.consumers[destination] = Subscribed(method.queue or "", no_ack, method.exclusive)
                counts._values[_CONSUMERS] += 1
        elif isinstance(method, MessageCancel):
            if session.consumers.pop(method.destination or "", None) is not None:
                self._consumer_room.give(1)
                counts._values[_CONSUMERS] -= 1
        elif isinstance(method, DtxSelect):
            session.is_distributed = True
        elif isinstance(method, TxSelect | DtxStart):
            session.is_transactional = True
        elif isinstance(method, DtxEnd):
            session.is_transactional = False
        if session._client.has_position:
            if session._requests is None:
                session._requests = OpenRequests(self._request_room)
            observed = None
            if self._observer is not None and self._request_room.left > 0:  # others may be very many
                observed = self._observer.ask(channel, method, len(payload))
            session._requests.add(position, method.name, now, observed, payload)
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _confirm(
        self,
        session: AttachmentMeter,
        outcome: cython.int,
        first: cython.longlong,
        last: cython.longlong,
        now: cython.double,
    ) -> cython.longlong:
        if session._publishes is None:
            return 0
        return self._close(session._publishes, self._counts.confirm_seconds, outcome, _UNCONFIRMED, first, last, now)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _settle(
        self,
        session: AttachmentMeter,
        outcome: cython.int,
        first: cython.longlong,
        last: cython.longlong,
        now: cython.double,
    ) -> cython.longlong:
        if session._deliveries is None:
            return 0
        return self._close(session._deliveries, self._counts.ack_seconds, outcome, _UNACKED, first, last, now)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _close(
        self,
        opened: OpenTransfers,
        seconds: Distribution,
        outcome: cython.int,
        gauge: cython.int,
        first: cython.longlong,
        last: cython.longlong,
        now: cython.double,
    ) -> cython.longlong:
        """Close a range of transfers, and return the number of those that were open."""
        counts: MessageCounts = self._counts
        before: cython.longlong = opened.count
        untimed: cython.longlong = opened.untimed
        settled: cython.longlong = opened.settle(first, last, now, seconds)
        counts._values[outcome] += settled
        counts._values[_UNTIMED] += opened.untimed - untimed
        counts._values[gauge] += opened.count - before
        return settled
