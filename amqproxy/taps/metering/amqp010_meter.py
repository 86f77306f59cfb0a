"""Counts the messages of one connection of AMQP 0-10, as `message_meter` does it for 0-9-1.

A client's message.transfer is a publish, confirmed when the server has completed or accepted it, unless it is in a
transaction; a server's is a delivery, which the client accepts, rejects, or releases. A command of the client's other
than these is a request, and its result or its completion the reply. This module may be compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from amqproxy.amqp010.commands import (
    DtxEnd,
    DtxStart,
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
from amqproxy.amqp010.frame import BODY, COMMAND, OVERHEAD, Frame
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.peer import SERVER, Peer
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from amqproxy.taps.metering.open_transfers import OpenTransfers

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

MAX_REQUESTS = 1024
"""Requests of a session whose replies are waited for; others are not measured."""

MAX_CONSUMERS = 4096
"""Subscriptions of a session that are counted."""

_NOT_ASKED = (
    MessageTransfer,
    MessageAccept,
    MessageReject,
    MessageRelease,
    MessageFlow,
    MessageSetFlowMode,
    MessageStop,
    ExecutionResult,
)
_TRANSFER = cython.declare(cython.int, MessageTransfer.index)
_COMMAND = cython.declare(cython.int, COMMAND)
_BODY = cython.declare(cython.int, BODY)
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_ACCEPT_NONE = cython.declare(object, AcceptMode.NONE)


def _table(*methods: type[Method]) -> bytes:
    """A 1 at the index of each."""
    return bytes([cls in methods for cls in BY_INDEX])


_ALWAYS_SENT = cython.declare(bytes, _table(MessageFlow, MessageSetFlowMode, MessageStop))
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
"""The controls that matter here."""

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
    """As `command_ids.position_of` has it."""
    distance: cython.longlong = (command_id - near) & 0xFFFF_FFFF
    return near + distance - (distance >> 31 << 32)


@cython.final
@cython.no_gc
@cython.cclass
class SendingPeer:
    """What one peer is sending in a session: the transfer that is under way, if one is, and the last position.

    The transfer's `position` is only known if it `has_position`.
    """

    def __init__(self) -> None:
        self.last = 0
        self.is_under_way = False
        self.has_position = False
        self.position = 0
        self.is_accepted = False
        self.is_redelivered = False
        self.size = 0


class Subscribed(NamedTuple):
    """A subscription: from which queue, and how."""

    queue: str
    no_ack: bool
    exclusive: bool


@cython.final
@cython.cclass
class AttachmentMeter:
    """One attachment of a session to a channel: what is open in it, and how many transfers either peer has sent."""

    def __init__(self) -> None:
        self.publishes = OpenTransfers()
        self.deliveries = OpenTransfers()
        self.requests: dict[int, tuple[str, float]] = {}
        self.consumers: dict[str, Subscribed] = {}
        self.published = self.delivered = 0
        self.is_transactional = False
        self._client = SendingPeer()
        self._server = SendingPeer()

    @property
    def unconfirmed(self) -> int:
        return self.publishes.count

    @property
    def unacked(self) -> int:
        return self.deliveries.count

    @cython.cfunc
    def ranges(self, peer: SendingPeer, ids: object) -> list:  # type: ignore[type-arg]
        """The positions that a set means of the commands of a peer."""
        found: list[tuple[int, int]] = []
        first: cython.longlong
        last: cython.longlong
        end: cython.longlong
        if ids is not None:
            for first, last in ids.ranges:  # type: ignore[attr-defined]
                end = _position_of(last, peer.last)
                found.append((end - ((last - first) & 0xFFFF_FFFF), end))
        return found


@cython.final
@cython.cclass
class AMQP010Meter:
    """Give it all frames of both peers, and the ids of their commands. Adds to `counts`."""

    def __init__(self, counts: MessageCounts) -> None:
        self._counts = counts
        self._sessions: dict[int, AttachmentMeter] = {}
        self._asked: dict[int, tuple[str, float]] = {}
        self._recent: AttachmentMeter | None = None
        self._recent_channel = -1

    def session(self, channel: int) -> AttachmentMeter | None:
        """What is open in the session on a channel, if there is one."""
        return self._sessions.get(channel)

    def feed(
        self, sender: Peer, frames: Sequence[Frame], command_ids: Sequence[int | None], now: cython.double
    ) -> None:
        """Take frames that came at a time, in seconds."""
        is_server: cython.bint = sender is SERVER
        counted: cython.p_const_uchar = _COUNTED
        frame: Frame
        kind: cython.int
        session: AttachmentMeter | None
        peer: SendingPeer
        listed: list[Frame] = frames if isinstance(frames, list) else list(frames)
        ids: list[int | None] = command_ids if isinstance(command_ids, list) else list(command_ids)
        place: cython.Py_ssize_t
        if len(ids) != len(listed):
            raise ValueError(f"{len(ids)} ids for {len(listed)} frames")
        for place in range(len(listed)):
            frame = listed[place]
            kind = frame.kind
            if kind <= _COMMAND:
                if frame.index < 0:
                    continue
                if kind == _COMMAND:
                    self._take_command(is_server, frame, ids[place], now)
                elif counted[frame.index] and frame.flags & 3 == 3:
                    self._take_control(is_server, frame, now)
                continue
            session = self._session(frame.channel)
            if session is None:
                continue
            peer = session._server if is_server else session._client
            if not peer.is_under_way:
                continue
            if kind == _BODY:
                peer.size += frame.length() - _OVERHEAD
            elif is_server:
                peer.is_redelivered = _is_redelivered(frame)
            if frame.flags & 5 == 5:
                self._finish(is_server, session, peer, now)

    def close(self) -> None:
        """The connection is over."""
        for channel in list(self._sessions):
            self._end(channel)

    # --- sessions

    @cython.cfunc
    def _session(self, channel: cython.int) -> AttachmentMeter | None:
        """That of a channel."""
        if channel != self._recent_channel:
            self._recent = self._sessions.get(channel)
            self._recent_channel = channel
        return self._recent

    @cython.cfunc
    def _take_control(self, is_server: cython.bint, frame: Frame, now: cython.double) -> object:
        method = _method(frame)
        channel: cython.int = frame.channel
        if isinstance(method, SessionCompleted):
            session = self._session(channel)
            if session is not None and is_server:
                self._complete(session, method.commands, now)
        elif isinstance(method, SessionAttach | ConnectionOpen):
            if not is_server and len(self._asked) < MAX_REQUESTS:
                self._asked[channel] = method.name, now
        elif isinstance(method, SessionAttached | ConnectionOpenOk):
            asked = self._asked.pop(channel, None)
            if asked is not None and is_server:
                self._counts.observe_request(asked[0], now - asked[1])
            if isinstance(method, SessionAttached):
                self._end(channel)
                self._begin(channel)
        elif method is not None:  # session.detach, session.detached
            self._end(channel)
        return None

    @cython.cfunc
    def _begin(self, channel: cython.int) -> AttachmentMeter:
        self._recent_channel = -1
        session = self._sessions[channel] = AttachmentMeter()
        return session

    def _end(self, channel: int) -> None:
        session: AttachmentMeter | None = self._sessions.pop(channel, None)
        self._recent_channel = -1
        if session is not None:
            values = self._counts.values
            values[Count.UNCONFIRMED] -= session.publishes.count
            values[Count.UNACKED] -= session.deliveries.count
            values[Count.CONSUMERS] -= len(session.consumers)

    # --- transfers

    @cython.cfunc
    def _take_command(self, is_server: cython.bint, frame: Frame, command_id: object, now: cython.double) -> object:
        session: AttachmentMeter | None = self._session(frame.channel)
        if session is None:  # one that was attached before the first frame that is counted begins with that
            session = self._begin(frame.channel)
        peer: SendingPeer = session._server if is_server else session._client
        always_sent: cython.p_const_uchar = _ALWAYS_SENT
        position: cython.longlong = peer.last + 1
        number: cython.longlong
        peer.has_position = command_id is not None
        if command_id is not None:
            number = command_id  # type: ignore[assignment]
            if position & 0xFFFF_FFFF != number:
                position = _position_of(number, position)
            peer.last = peer.position = position
        if frame.index == _TRANSFER:
            peer.is_under_way = True
            peer.size = 0
            peer.is_redelivered = False
            peer.is_accepted = is_server and _is_accepted(frame)
            if frame.flags & 5 == 5:
                self._finish(is_server, session, peer, now)
            return None
        peer.is_under_way = False
        if frame.flags & 3 != 3 or always_sent[frame.index]:
            return None
        method = _method(frame)
        if method is None:
            return None
        if is_server:
            self._take_of_server(session, method, now)
            return None
        self._take_of_client(session, method, now)
        if peer.has_position and not isinstance(method, _NOT_ASKED) and len(session.requests) < MAX_REQUESTS:
            session.requests[position] = method.name, now
        return None

    @cython.cfunc
    def _finish(
        self, is_server: cython.bint, session: AttachmentMeter, peer: SendingPeer, now: cython.double
    ) -> object:
        """A transfer is whole."""
        counts: MessageCounts = self._counts
        peer.is_under_way = False
        if not is_server:
            session.published += 1
            counts._values[_PUBLISHED] += 1
            counts.published_bytes.observe(peer.size)
            if peer.has_position and not session.is_transactional:
                counts._values[_UNCONFIRMED] += 1 - session.publishes.add(peer.position, now)
            return None
        session.delivered += 1
        counts._values[_DELIVERED] += 1
        counts.delivered_bytes.observe(peer.size)
        if peer.is_redelivered:
            counts._values[_REDELIVERED] += 1
        if peer.is_accepted:
            counts._values[_AUTO_ACKED] += 1
        elif peer.has_position:
            counts._values[_UNACKED] += 1 - session.deliveries.add(peer.position, now)
        return None

    # --- what becomes of them

    @cython.cfunc
    def _complete(self, session: AttachmentMeter, commands: object, now: cython.double) -> object:
        first: cython.longlong
        last: cython.longlong
        for first, last in session.ranges(session._client, commands):
            self._confirm(session, _CONFIRMED, first, last, now)
            if session.requests:
                for position in [each for each in session.requests if first <= each <= last]:
                    self._answer(session, position, now)
        return None

    def _answer(self, session: AttachmentMeter, position: int, now: float) -> None:
        asked = session.requests.pop(position, None)
        if asked is not None:
            self._counts.observe_request(asked[0], now - asked[1])

    @cython.cfunc
    def _take_of_server(self, session: AttachmentMeter, method: Method, now: cython.double) -> object:
        first: cython.longlong
        last: cython.longlong
        count: cython.longlong
        if isinstance(method, MessageAccept):
            for first, last in session.ranges(session._client, method.transfers):
                self._confirm(session, _CONFIRMED, first, last, now)
        elif isinstance(method, MessageReject):
            is_return = method.code in (RejectCode.UNROUTABLE, RejectCode.IMMEDIATE)
            for first, last in session.ranges(session._client, method.transfers):
                count = self._confirm(session, _NACKED, first, last, now)
                if is_return:
                    self._counts._values[_RETURNED] += count
        elif isinstance(method, MessageRelease):
            for first, last in session.ranges(session._client, method.transfers):
                self._confirm(session, _NACKED, first, last, now)
        elif isinstance(method, ExecutionResult) and method.command_id is not None:
            self._answer(session, _position_of(method.command_id, session._client.last), now)
        return None

    @cython.cfunc
    def _take_of_client(self, session: AttachmentMeter, method: Method, now: cython.double) -> object:
        if isinstance(method, MessageAccept):
            self._settle(session, _ACKED, method.transfers, now)
        elif isinstance(method, MessageReject):
            self._settle(session, _REJECTED, method.transfers, now)
        elif isinstance(method, MessageRelease):
            self._settle(session, _REQUEUED, method.transfers, now)
        elif isinstance(method, MessageSubscribe):
            destination = method.destination or ""
            if len(session.consumers) < MAX_CONSUMERS and destination not in session.consumers:
                no_ack = method.accept_mode == AcceptMode.NONE
                session.consumers[destination] = Subscribed(method.queue or "", no_ack, method.exclusive)
                self._counts._values[_CONSUMERS] += 1
        elif isinstance(method, MessageCancel):
            if session.consumers.pop(method.destination or "", None) is not None:
                self._counts._values[_CONSUMERS] -= 1
        elif isinstance(method, TxSelect | DtxStart):
            session.is_transactional = True
        elif isinstance(method, DtxEnd):
            session.is_transactional = False
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
        counts: MessageCounts = self._counts
        total: cython.longlong = 0
        count: cython.longlong
        since: cython.double
        for each in session.publishes.settle(first, last):
            count = each[0]
            total += count
            if each[1] is None:
                counts._values[_UNTIMED] += count
            else:
                since = each[1]
                counts.confirm_seconds.observe(now - since, count)
        if total:
            counts._values[outcome] += total
            counts._values[_UNCONFIRMED] -= total + session.publishes.forget_excess()
        return total

    @cython.cfunc
    def _settle(self, session: AttachmentMeter, outcome: cython.int, transfers: object, now: cython.double) -> object:
        counts: MessageCounts = self._counts
        first: cython.longlong
        last: cython.longlong
        count: cython.longlong
        since: cython.double
        for first, last in session.ranges(session._server, transfers):
            for each in session.deliveries.settle(first, last):
                count = each[0]
                counts._values[outcome] += count
                counts._values[_UNACKED] -= count
                if each[1] is None:
                    counts._values[_UNTIMED] += count
                else:
                    since = each[1]
                    counts.ack_seconds.observe(now - since, count)
        counts._values[_UNACKED] -= session.deliveries.forget_excess()
        return None


@cython.cfunc
def _method(frame: Frame) -> Any:
    """What the frame holds; None where that is malformed, which the broker answers, or where it holds not all of it."""
    try:
        return frame.method if frame.flags & 3 == 3 else None
    except ProtocolError:
        return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_accepted(frame: Frame) -> cython.bint:
    """Whether a message.transfer need not be accepted."""
    method = _method(frame)
    return method is not None and method.accept_mode == _ACCEPT_NONE


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_redelivered(frame: Frame) -> cython.bint:
    """Whether a header says so; it is decoded only where it may."""
    if frame.flags & 3 != 3 or not _may_be_redelivered(frame):
        return False
    try:
        properties = frame.header.delivery
    except ProtocolError:
        return False
    return properties is not None and properties.redelivered


@cython.cfunc
@cython.exceptval(check=False)
def _may_be_redelivered(frame: Frame) -> cython.bint:
    """Whether the flags of the delivery-properties in a header have the bit; malformed ones may be anything."""
    p: cython.p_const_uchar = frame._buffer
    at: cython.Py_ssize_t = frame._start + _OVERHEAD
    end: cython.Py_ssize_t = frame._end
    size: cython.longlong
    while end - at >= 8:
        size = cython.cast(cython.longlong, p[at]) << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3]
        if p[at + 4] == 4 and p[at + 5] == 1:
            return p[at + 6] & 4 != 0
        if size > end - at - 4:
            return False
        at += 4 + size
    return False
