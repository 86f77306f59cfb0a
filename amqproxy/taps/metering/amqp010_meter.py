"""Counts the messages of one connection of AMQP 0-10, as `message_meter` does it for 0-9-1.

A client's message.transfer is a publish, confirmed when the server has completed or accepted it, unless it is in a
transaction; a server's is a delivery, which the client accepts, rejects, or releases. A command of the client's other
than these is a request, and its result or its completion the reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amqproxy.amqp010.command_ids import position_of
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
from amqproxy.amqp010.frame import BODY, COMMAND, HEADER, Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from amqproxy.taps.metering.open_transfers import OpenTransfers

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
_MASK = (1 << 32) - 1
_TRANSFER = MessageTransfer.index
_ALWAYS_SENT = frozenset({MessageFlow.index, MessageSetFlowMode.index, MessageStop.index})
_CONTROLS = frozenset(
    each.index
    for each in (
        ConnectionOpen,
        ConnectionOpenOk,
        SessionAttach,
        SessionAttached,
        SessionCompleted,
        SessionDetach,
        SessionDetached,
    )
)


class _Transfer:
    """A transfer under way."""

    __slots__ = ("is_accepted", "position", "redelivered", "size")

    def __init__(self, position: int | None, is_accepted: bool) -> None:
        self.position = position
        self.is_accepted = is_accepted
        self.redelivered = False
        self.size = 0


class Subscribed(NamedTuple):
    """A subscription: from which queue, and how."""

    queue: str
    no_ack: bool
    exclusive: bool


class AttachmentMeter:
    """One attachment of a session to a channel: what is open in it, and how many transfers either peer has sent."""

    __slots__ = (
        "_next",
        "consumers",
        "delivered",
        "deliveries",
        "is_transactional",
        "published",
        "publishes",
        "requests",
        "under_way",
    )

    def __init__(self) -> None:
        self.publishes = OpenTransfers()
        self.deliveries = OpenTransfers()
        self.requests: dict[int, tuple[str, float]] = {}
        self.consumers: dict[str, Subscribed] = {}
        self.published = self.delivered = 0
        self.is_transactional = False
        self.under_way: dict[Peer, _Transfer | None] = dict.fromkeys(Peer)
        self._next: dict[Peer, int] = dict.fromkeys(Peer, 0)

    @property
    def unconfirmed(self) -> int:
        return self.publishes.count

    @property
    def unacked(self) -> int:
        return self.deliveries.count

    def position(self, sender: Peer, command_id: int | None) -> int | None:
        """The position of a command that a peer sends now."""
        if command_id is None:
            return None
        position = self._next[sender] + 1
        if position & _MASK != command_id:
            position = position_of(command_id, position)
        self._next[sender] = position
        return position

    def ranges(self, sender: Peer, ids: SequenceSet | None) -> list[tuple[int, int]]:
        """The positions that a set means of the commands of a peer."""
        found = []
        for first, last in () if ids is None else ids.ranges:
            end = position_of(last, self._next[sender])
            found.append((end - (last - first) % (1 << 32), end))
        return found


class AMQP010Meter:
    """Give it all frames of both peers, and the ids of their commands. Adds to `counts`."""

    def __init__(self, counts: MessageCounts) -> None:
        self._counts = counts
        self._sessions: dict[int, AttachmentMeter] = {}
        self._asked: dict[int, tuple[str, float]] = {}

    def session(self, channel: int) -> AttachmentMeter | None:
        """What is open in the session on a channel, if there is one."""
        return self._sessions.get(channel)

    def feed(self, sender: Peer, frames: Sequence[Frame], command_ids: Sequence[int | None], now: float) -> None:
        """Take frames that came at a time, in seconds."""
        sessions = self._sessions
        for frame, command_id in zip(frames, command_ids, strict=True):
            kind = frame.kind
            if kind == BODY:
                session = sessions.get(frame.channel)
                transfer = None if session is None else session.under_way[sender]
                if session is not None and transfer is not None:
                    transfer.size += frame.size
                    if frame.ends_assembly:
                        self._finish(sender, session, transfer, now)
            elif kind == HEADER:
                if sender is SERVER or frame.ends_assembly:
                    self._take_header(sender, frame, now)
            elif kind == COMMAND:
                if frame.index >= 0:
                    self._take_command(sender, frame, command_id, now)
            elif frame.index in _CONTROLS and frame.is_whole_segment:
                self._take_control(sender, frame, now)

    def close(self) -> None:
        """The connection is over."""
        for channel in list(self._sessions):
            self._end(channel)

    # --- sessions

    def _take_control(self, sender: Peer, frame: Frame, now: float) -> None:
        method = _method(frame)
        channel = frame.channel
        match method:
            case SessionCompleted():
                session = self._sessions.get(channel)
                if session is not None and sender is SERVER:
                    self._complete(session, method.commands, now)
            case SessionAttach() | ConnectionOpen():
                if sender is CLIENT and len(self._asked) < MAX_REQUESTS:
                    self._asked[channel] = method.name, now
            case SessionAttached() | ConnectionOpenOk():
                asked = self._asked.pop(channel, None)
                if asked is not None and sender is SERVER:
                    self._counts.observe_request(asked[0], now - asked[1])
                if isinstance(method, SessionAttached):
                    self._end(channel)
                    self._sessions[channel] = AttachmentMeter()
            case SessionDetach() | SessionDetached():
                self._end(channel)
            case _:
                pass

    def _end(self, channel: int) -> None:
        session = self._sessions.pop(channel, None)
        if session is not None:
            values = self._counts.values
            values[Count.UNCONFIRMED] -= session.publishes.count
            values[Count.UNACKED] -= session.deliveries.count
            values[Count.CONSUMERS] -= len(session.consumers)

    # --- transfers

    def _session(self, channel: int) -> AttachmentMeter:
        """That of a channel; one that was attached before the first frame that is counted begins with that."""
        session = self._sessions.get(channel)
        if session is None:
            session = self._sessions[channel] = AttachmentMeter()
        return session

    def _take_command(self, sender: Peer, frame: Frame, command_id: int | None, now: float) -> None:
        session = self._session(frame.channel)
        position = session.position(sender, command_id)
        if frame.index == _TRANSFER:
            accept_mode = getattr(_method(frame), "accept_mode", None) if sender is SERVER else None
            transfer = _Transfer(position, accept_mode == AcceptMode.NONE)
            session.under_way[sender] = transfer
            if frame.ends_assembly:
                self._finish(sender, session, transfer, now)
            return
        session.under_way[sender] = None
        if not frame.is_whole_segment or frame.index in _ALWAYS_SENT:
            return
        method = _method(frame)
        if method is None:
            return
        if sender is SERVER:
            self._take_of_server(session, method, now)
            return
        self._take_of_client(session, method, now)
        if position is not None and not isinstance(method, _NOT_ASKED) and len(session.requests) < MAX_REQUESTS:
            session.requests[position] = method.name, now

    def _take_header(self, sender: Peer, frame: Frame, now: float) -> None:
        session = self._sessions.get(frame.channel)
        transfer = None if session is None else session.under_way[sender]
        if session is None or transfer is None:
            return
        if sender is SERVER and frame.is_whole_segment:
            try:
                properties = frame.header.delivery
            except ProtocolError:
                properties = None
            transfer.redelivered = properties is not None and bool(properties.redelivered)
        if frame.ends_assembly:
            self._finish(sender, session, transfer, now)

    def _finish(self, sender: Peer, session: AttachmentMeter, transfer: _Transfer, now: float) -> None:
        """A transfer is whole."""
        session.under_way[sender] = None
        counts = self._counts
        values, position = counts.values, transfer.position
        if sender is CLIENT:
            session.published += 1
            values[Count.PUBLISHED] += 1
            counts.published_bytes.observe(transfer.size)
            if position is not None and not session.is_transactional:
                values[Count.UNCONFIRMED] += 1 - session.publishes.add(position, now)
            return
        session.delivered += 1
        values[Count.DELIVERED] += 1
        counts.delivered_bytes.observe(transfer.size)
        if transfer.redelivered:
            values[Count.REDELIVERED] += 1
        if transfer.is_accepted:
            values[Count.AUTO_ACKED] += 1
        elif position is not None:
            values[Count.UNACKED] += 1 - session.deliveries.add(position, now)

    # --- what becomes of them

    def _complete(self, session: AttachmentMeter, commands: SequenceSet | None, now: float) -> None:
        for first, last in session.ranges(CLIENT, commands):
            self._confirm(session, Count.CONFIRMED, first, last, now)
            for position in [each for each in session.requests if first <= each <= last]:
                self._answer(session, position, now)

    def _answer(self, session: AttachmentMeter, position: int, now: float) -> None:
        asked = session.requests.pop(position, None)
        if asked is not None:
            self._counts.observe_request(asked[0], now - asked[1])

    def _take_of_server(self, session: AttachmentMeter, method: Method, now: float) -> None:
        match method:
            case MessageAccept():
                for first, last in session.ranges(CLIENT, method.transfers):
                    self._confirm(session, Count.CONFIRMED, first, last, now)
            case MessageReject():
                is_return = method.code in (RejectCode.UNROUTABLE, RejectCode.IMMEDIATE)
                for first, last in session.ranges(CLIENT, method.transfers):
                    count = self._confirm(session, Count.NACKED, first, last, now)
                    if is_return:
                        self._counts.values[Count.RETURNED] += count
            case MessageRelease():
                for first, last in session.ranges(CLIENT, method.transfers):
                    self._confirm(session, Count.NACKED, first, last, now)
            case ExecutionResult() if method.command_id is not None:
                for first, _ in session.ranges(CLIENT, SequenceSet([(method.command_id, method.command_id)])):
                    self._answer(session, first, now)
            case _:
                pass

    def _take_of_client(self, session: AttachmentMeter, method: Method, now: float) -> None:
        values = self._counts.values
        match method:
            case MessageAccept():
                self._settle(session, Count.ACKED, method.transfers, now)
            case MessageReject():
                self._settle(session, Count.REJECTED, method.transfers, now)
            case MessageRelease():
                self._settle(session, Count.REQUEUED, method.transfers, now)
            case MessageSubscribe():
                destination = method.destination or ""
                if len(session.consumers) < MAX_CONSUMERS and destination not in session.consumers:
                    no_ack = method.accept_mode == AcceptMode.NONE
                    session.consumers[destination] = Subscribed(method.queue or "", no_ack, method.exclusive)
                    values[Count.CONSUMERS] += 1
            case MessageCancel():
                if session.consumers.pop(method.destination or "", None) is not None:
                    values[Count.CONSUMERS] -= 1
            case TxSelect() | DtxStart():
                session.is_transactional = True
            case DtxEnd():
                session.is_transactional = False
            case _:
                pass

    def _confirm(self, session: AttachmentMeter, outcome: Count, first: int, last: int, now: float) -> int:
        counts = self._counts
        total = 0
        for count, since in session.publishes.settle(first, last):
            total += count
            if since is None:
                counts.values[Count.UNTIMED] += count
            else:
                counts.confirm_seconds.observe(now - since, count)
        if total:
            counts.values[outcome] += total
            counts.values[Count.UNCONFIRMED] -= total + session.publishes.forget_excess()
        return total

    def _settle(self, session: AttachmentMeter, outcome: Count, transfers: SequenceSet | None, now: float) -> None:
        counts = self._counts
        for first, last in session.ranges(SERVER, transfers):
            for count, since in session.deliveries.settle(first, last):
                counts.values[outcome] += count
                counts.values[Count.UNACKED] -= count
                if since is None:
                    counts.values[Count.UNTIMED] += count
                else:
                    counts.ack_seconds.observe(now - since, count)
        counts.values[Count.UNACKED] -= session.deliveries.forget_excess()


def _method(frame: Frame) -> Method | None:
    """What the frame holds; None where that is malformed, which the broker answers."""
    try:
        method: Method = frame.method
    except ProtocolError:
        return None
    return method
