"""What `Amqp010Meter` has to count, worked out of decoded frames, one object a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from amqproxy.amqp010.frame import BODY, COMMAND, CONTROL, HEADER, OVERHEAD, Frame
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.metering.message_counts import Count, MessageCounts

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
_OUTCOMES: dict[tuple[Peer, type], Count] = {
    (SERVER, MessageAccept): Count.CONFIRMED,
    (SERVER, MessageReject): Count.NACKED,
    (SERVER, MessageRelease): Count.NACKED,
    (CLIENT, MessageAccept): Count.ACKED,
    (CLIENT, MessageReject): Count.REJECTED,
    (CLIENT, MessageRelease): Count.REQUEUED,
}


class Sending:
    """What one peer sends in a session, and which of its transfers are open since when, by their positions."""

    def __init__(self) -> None:
        self.last = 0
        self.transfer: tuple[int | None, bool] | None = None
        self.is_redelivered = False
        self.size = 0
        self.open: dict[int, float] = {}
        self.sent = 0

    def position(self, command_id: int | None) -> int | None:
        if command_id is not None:
            self.last = position_of(command_id, self.last + 1)
            return self.last
        return None

    def positions(self, ids: SequenceSet | None) -> list[tuple[int, int]]:
        found = []
        for first, last in () if ids is None else ids.ranges:
            end = position_of(last, self.last)
            found.append((end - ((last - first) & 0xFFFF_FFFF), end))
        return found


class Attachment:
    """A session on a channel."""

    def __init__(self) -> None:
        self.sending = {peer: Sending() for peer in Peer}
        self.requests: dict[int, tuple[str, float]] = {}
        self.consumers: dict[str, tuple[str, bool, bool]] = {}
        self.is_transactional = False


class PlainAmqp010Meter:
    """It is without bounds: give it less than `Amqp010Meter` remembers."""

    def __init__(self) -> None:
        self.counts = MessageCounts()
        self.sessions: dict[int, Attachment] = {}
        self._asked: dict[int, tuple[str, float]] = {}

    def feed(self, sender: Peer, frames: Sequence[Frame], command_ids: Sequence[int | None], now: float) -> None:
        for frame, command_id in zip(frames, command_ids, strict=True):
            if frame.kind in (HEADER, BODY):
                self._take_content(sender, frame, now)
            elif frame.kind == COMMAND and frame.index >= 0:
                self._take_command(sender, frame, command_id, now)
            elif frame.kind == CONTROL and frame.index >= 0:
                self._take_control(sender, frame, now)

    def _count(self, what: Count, by: int = 1) -> None:
        self.counts.values[what] += by

    def _take_control(self, sender: Peer, frame: Frame, now: float) -> None:
        method, channel = _method(frame), frame.channel
        if isinstance(method, SessionCompleted):
            session = self.sessions.get(channel)
            if session is not None and sender is SERVER:
                for first, last in session.sending[CLIENT].positions(method.commands):
                    self._settle(session, CLIENT, Count.CONFIRMED, first, last, now)
                    for position in sorted(session.requests):
                        if first <= position <= last:
                            self._answer(session, position, now)
        elif isinstance(method, SessionAttach | ConnectionOpen):
            if sender is CLIENT:
                self._asked[channel] = method.name, now
        elif isinstance(method, SessionAttached | ConnectionOpenOk):
            asked = self._asked.pop(channel, None)
            if asked is not None and sender is SERVER:
                self.counts.observe_request(asked[0], now - asked[1])
            if isinstance(method, SessionAttached):
                self._end(channel)
                self.sessions[channel] = Attachment()
        elif isinstance(method, SessionDetach | SessionDetached):
            self._end(channel)

    def _end(self, channel: int) -> None:
        session = self.sessions.pop(channel, None)
        if session is not None:
            self._count(Count.UNCONFIRMED, -len(session.sending[CLIENT].open))
            self._count(Count.UNACKED, -len(session.sending[SERVER].open))
            self._count(Count.CONSUMERS, -len(session.consumers))

    def close(self) -> None:
        for channel in list(self.sessions):
            self._end(channel)

    def _take_content(self, sender: Peer, frame: Frame, now: float) -> None:
        session = self.sessions.get(frame.channel)
        sending = None if session is None else session.sending[sender]
        if session is None or sending is None or sending.transfer is None:
            return
        if frame.kind == BODY:
            sending.size += frame.length() - OVERHEAD
        else:
            sending.is_redelivered = _is_redelivered(frame)
        if frame.ends_assembly:
            self._finish(sender, session, now)

    def _take_command(self, sender: Peer, frame: Frame, command_id: int | None, now: float) -> None:
        session = self.sessions.setdefault(frame.channel, Attachment())
        sending = session.sending[sender]
        position = sending.position(command_id)
        sending.transfer = None
        method = _method(frame)
        if frame.index == MessageTransfer.index:
            is_accepted = method is not None and method.accept_mode == AcceptMode.NONE
            sending.transfer = position, is_accepted
            sending.size, sending.is_redelivered = 0, False
            if frame.ends_assembly:
                self._finish(sender, session, now)
        elif method is not None:
            self._take_method(sender, session, method, position, now)

    def _finish(self, sender: Peer, session: Attachment, now: float) -> None:
        sending = session.sending[sender]
        assert sending.transfer is not None
        position, is_accepted = sending.transfer
        sending.transfer = None
        sending.sent += 1
        if sender is CLIENT:
            self._count(Count.PUBLISHED)
            self.counts.published_bytes.observe(sending.size)
            is_open, gauge = not session.is_transactional, Count.UNCONFIRMED
        else:
            self._count(Count.DELIVERED)
            self._count(Count.REDELIVERED, sending.is_redelivered)
            self._count(Count.AUTO_ACKED, is_accepted)
            self.counts.delivered_bytes.observe(sending.size)
            is_open, gauge = not is_accepted, Count.UNACKED
        if is_open and position is not None and position > max(sending.open, default=position - 1):
            sending.open[position] = now
            self._count(gauge)

    def _take_method(self, sender: Peer, session: Attachment, method: Any, position: int | None, now: float) -> None:
        outcome = _OUTCOMES.get((sender, type(method)))
        if outcome is not None:
            for first, last in session.sending[sender.other].positions(method.transfers):
                count = self._settle(session, sender.other, outcome, first, last, now)
                is_return = isinstance(method, MessageReject) and method.code in (
                    RejectCode.UNROUTABLE,
                    RejectCode.IMMEDIATE,
                )
                if sender is SERVER and is_return:
                    self._count(Count.RETURNED, count)
        elif sender is SERVER:
            if isinstance(method, ExecutionResult) and method.command_id is not None:
                self._answer(session, position_of(method.command_id, session.sending[CLIENT].last), now)
        else:
            self._take_request(session, method)
            if position is not None and not isinstance(method, _NOT_ASKED):
                session.requests[position] = method.name, now

    def _take_request(self, session: Attachment, method: Any) -> None:
        before = len(session.consumers)
        if isinstance(method, MessageSubscribe):
            no_ack = method.accept_mode == AcceptMode.NONE
            session.consumers.setdefault(method.destination or "", (method.queue or "", no_ack, method.exclusive))
        elif isinstance(method, MessageCancel):
            session.consumers.pop(method.destination or "", None)
        elif isinstance(method, TxSelect | DtxStart):
            session.is_transactional = True
        elif isinstance(method, DtxEnd):
            session.is_transactional = False
        self._count(Count.CONSUMERS, len(session.consumers) - before)

    def _settle(self, session: Attachment, sender: Peer, outcome: Count, first: int, last: int, now: float) -> int:
        opened = session.sending[sender].open
        settled = [position for position in opened if first <= position <= last]
        for position in settled:
            seconds = self.counts.confirm_seconds if sender is CLIENT else self.counts.ack_seconds
            seconds.observe(now - opened.pop(position))
        self._count(outcome, len(settled))
        self._count(Count.UNCONFIRMED if sender is CLIENT else Count.UNACKED, -len(settled))
        return len(settled)

    def _answer(self, session: Attachment, position: int, now: float) -> None:
        asked = session.requests.pop(position, None)
        if asked is not None:
            self.counts.observe_request(asked[0], now - asked[1])


def _method(frame: Frame) -> Any:
    """What a frame holds; None where that is malformed, or not all of it is in the frame."""
    try:
        return frame.method if frame.is_whole_segment else None
    except ProtocolError:
        return None


def _is_redelivered(frame: Frame) -> bool:
    if not frame.is_whole_segment:
        return False
    try:
        properties = frame.header.delivery
    except ProtocolError:
        return False
    return properties is not None and bool(properties.redelivered)
