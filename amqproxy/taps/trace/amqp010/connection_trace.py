"""Trace of one 0-10 connection: its opening and closing, and the sessions on its channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqproxy.amqp010.assembly import AssemblyReader
from amqproxy.amqp010.commands import (
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageReject,
    MessageRelease,
    MessageTransfer,
)
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    ConnectionStart,
    SessionAttach,
    SessionAttached,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
    SessionTimeout,
)
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import COMMAND, CONTROL, Frame
from amqproxy.amqp010.methods import BY_NAME, Control
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp010.attachment_trace import AttachmentTrace
from amqproxy.taps.trace.amqp010.branches import Branches
from amqproxy.taps.trace.amqp010.early_frames import EarlyFrames
from amqproxy.taps.trace.amqp010.handshake import Amqp010Handshake
from amqproxy.taps.trace.connection_trace import ConnectionTrace
from amqproxy.taps.trace.events import TraceEvent
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

HEARTBEAT = BY_NAME["connection.heartbeat"].index

SESSION_COST = 4096
"""Memory charged for a session, in bytes; sessions beyond the budget are not followed."""


class ChannelSessions:
    """Sessions on one channel: the one that each peer uses, and those that the client has attached since.

    The peers' sessions differ after one has detached or attached, until the other has learned of it.
    """

    __slots__ = ("attaching", "readers", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[Peer, AttachmentTrace | None] = dict.fromkeys(Peer)
        self.attaching: list[AttachmentTrace] = []
        self.readers: dict[Peer, AssemblyReader] = {}
        """Reader of each peer's control that spans several frames."""

    def all(self) -> list[AttachmentTrace]:
        """Return all sessions on the channel, each once."""
        found: list[AttachmentTrace] = []
        for each in (self.sessions[SERVER], self.sessions[CLIENT], *self.attaching):
            if each is not None and each not in found:
                found.append(each)
        return found

    def named(self, sender: Peer, name: bytes) -> AttachmentTrace | None:
        """Return the session that `sender` means by a name; `None` if there is none."""
        for each in (self.sessions[sender], self.sessions[sender.other], *self.attaching):
            if each is not None and each.name in (name, None):
                return each
        return None

    def remove(self, session: AttachmentTrace) -> None:
        """Remove a session, which has ended."""
        for peer in Peer:
            if self.sessions[peer] is session:
                self.sessions[peer] = None
        if session in self.attaching:
            self.attaching.remove(session)


class Amqp010Trace(ConnectionTrace[Frame, AttachmentTrace]):
    """Trace of one 0-10 connection; a newly attached session is a different one, so that no channel is reopened."""

    PROTOCOL = NAME

    __slots__ = ("_branches", "_by_channel", "_handshake")

    def __init__(self, **options: Any) -> None:
        self._by_channel: dict[int, ChannelSessions] = {}
        self._branches = Branches()
        super().__init__(**options)
        self._handshake = Amqp010Handshake(self.facts)

    def _restoring(self, snapshot: ConnectionSnapshot) -> Iterator[None]:
        self._handshake.restore()
        for each in snapshot.channels:
            channel = self._channel(each.number)
            is_attaching = each.opening_ts_ns is not None
            if channel.all() and not is_attaching:
                raise ValueError(f"two sessions are attached to channel {each.number} in a snapshot")
            session = self._new_session(each.number, each.name, None, each.epoch)
            if session is not None:
                session.restore(each)
                if self._is_unread:
                    session.stop_reading()
                channel.sessions[CLIENT] = self.channels[each.number] = session
                if is_attaching:
                    channel.attaching.append(session)
                else:
                    channel.sessions[SERVER] = session
            yield

    def _drop_channels(self) -> None:
        self._budgets.memory.give(SESSION_COST * len(self._all_channels()))
        self._by_channel.clear()
        self.channels.clear()

    def end_channel(self, number: int, ts_ns: int) -> list[TraceEvent]:
        """End all sessions on a channel, and report everything still open on them."""
        channel = self._by_channel.pop(number, None)
        for session in [] if channel is None else channel.all():
            self._end_session(session, ts_ns)
        self.channels.pop(number, None)
        return self._queue.take()

    # --- frames

    def _feed(self, sender: Peer, frame: Frame, ts_ns: int, is_by_proxy: bool) -> None:
        if self._on_frame is not None:
            self._on_frame(sender, frame, ts_ns)
        try:
            if frame.kind == CONTROL:
                self._feed_control_frame(sender, frame, ts_ns)
            else:
                session = self._channel_of(sender, frame.channel)
                if session is None and not self.knows_state:
                    session = self._join(frame.channel)
                if session is not None:
                    session.feed_command_frame(sender, frame, ts_ns)
        except ProtocolError as error:
            self._lose(sender, error.reply_text, ts_ns)
        self._queue.end_frame(sender, is_by_proxy=is_by_proxy, is_heartbeat=frame.index == HEARTBEAT)

    def _new_order(self) -> EarlyFrames:
        return EarlyFrames(self._budgets.memory, self._is_early)

    def _is_first(self, frame: Frame) -> bool:
        return frame.index == ConnectionStart.index

    def _forget(self, ts_ns: int, sender: Peer | None = None) -> None:
        for channel in self._by_channel.values():
            channel.readers.clear()
        super()._forget(ts_ns, sender)

    # --- sessions

    def _all_channels(self) -> list[AttachmentTrace]:
        return [session for channel in self._by_channel.values() for session in channel.all()]

    def _channel_of(self, sender: Peer, number: int) -> AttachmentTrace | None:
        channel = self._by_channel.get(number)
        return None if channel is None else channel.sessions[sender]

    def _channel(self, number: int) -> ChannelSessions:
        channel = self._by_channel.get(number)
        if channel is None:
            channel = self._by_channel[number] = ChannelSessions()
        return channel

    def _join(self, number: int) -> AttachmentTrace | None:
        """Return the session in use on a channel whose attachment was not seen; `None` if the budget is exhausted."""
        channel = self._channel(number)
        known = channel.all()
        session = known[-1] if known else self._new_session(number, None, None)
        if session is not None:
            for peer in Peer:
                if channel.sessions[peer] is None:
                    channel.sessions[peer] = session
            self.channels.setdefault(number, session)
        return session

    def _new_session(
        self, number: int, name: bytes | None, ts_ns: int | None, epoch: int | None = None
    ) -> AttachmentTrace | None:
        if not self._budgets.memory.take(SESSION_COST):
            return None
        last = self._epochs.get(number)
        if epoch is None:
            epoch = int(name is not None) if last is None else last + 1
        self._epochs[number] = epoch
        session = AttachmentTrace(
            number,
            name,
            self._events,
            self._budgets,
            self._branches,
            epoch=epoch,
            ts_ns=ts_ns,
            body=self._body,
            digests=self._digests,
        )
        session.is_lagging = self._lag_end_ns is not None
        if self._is_unread:
            session.stop_reading()
        return session

    def _attach(self, sender: Peer, number: int, name: bytes, ts_ns: int) -> None:
        channel = self._channel(number)
        current = channel.sessions[sender]
        if current is not None and not current.is_closing and (current.name == name or current.name is None):
            return  # the session is attached already
        session = self._new_session(number, name, ts_ns)
        channel.sessions[sender] = session
        if session is None:
            self.channels.pop(number, None)
        else:
            channel.attaching.append(session)
            self.channels[number] = session

    def _attached(self, sender: Peer, number: int, name: bytes, ts_ns: int) -> None:
        channel = self._channel(number)
        session = next((each for each in channel.attaching if each.name == name), None)
        if session is None:
            self._attached_unseen(channel, name, ts_ns)
            return
        channel.attaching.remove(session)
        channel.sessions[sender] = session
        session.attached(ts_ns)

    def _attached_unseen(self, channel: ChannelSessions, name: bytes, ts_ns: int) -> None:
        """Take the answer to a session.attach that was missed: the earlier session on the channel has ended."""
        earlier = channel.sessions[SERVER]
        if earlier is not None and not earlier.knows_start:
            earlier.lose(ts_ns)
            earlier.name = name

    def _detached(self, sender: Peer, number: int, control: SessionDetached, ts_ns: int) -> None:
        channel = self._channel(number)
        session = channel.named(sender, control.name_ or b"")
        if session is None:
            return
        session.detached(sender, control, ts_ns)
        channel.remove(session)
        if self.channels.get(number) is session:
            del self.channels[number]
        self._end_session(session, ts_ns)

    def _end_session(self, session: AttachmentTrace, ts_ns: int) -> None:
        session.end(ts_ns)
        self._budgets.memory.give(SESSION_COST)

    def _end_channels(self, ts_ns: int) -> None:
        for session in self._all_channels():
            self._end_session(session, ts_ns)
        self._by_channel.clear()
        self.channels.clear()

    # --- controls

    def _feed_control_frame(self, sender: Peer, frame: Frame, ts_ns: int) -> None:
        if frame.is_whole_segment and frame.begins_assembly:
            self._feed_control(sender, frame.channel, frame.method, ts_ns)
            return
        readers = self._channel(frame.channel).readers
        assembly = readers.setdefault(sender, AssemblyReader()).add(frame)
        if assembly is not None:
            del readers[sender]
            self._feed_control(sender, frame.channel, assembly.method, ts_ns)

    def _feed_control(self, sender: Peer, number: int, control: Control, ts_ns: int) -> None:
        match control:
            case ConnectionClose():
                is_answer = sender is SERVER and self._is_open is False
                method = self._handshake.answered if is_answer else None
                self._report_close(sender, control.reply_code or 0, control.reply_text or "", method, ts_ns)
            case ConnectionCloseOk():
                self._end_channels(ts_ns)
            case ConnectionOpenOk():
                self._is_open = True
                self._events.append(self._handshake.opened(ts_ns))
            case SessionAttach():
                self._attach(sender, number, control.name_ or b"", ts_ns)
            case SessionAttached():
                self._attached(sender, number, control.name_ or b"", ts_ns)
            case SessionDetach():
                session = self._channel(number).named(sender, control.name_ or b"")
                if session is not None:
                    session.detach(sender, ts_ns)
            case SessionDetached():
                self._detached(sender, number, control, ts_ns)
            case _ if control.name.startswith("session."):
                found = self._channel_of(sender, number)
                if found is None and not self.knows_state:
                    found = self._join(number)
                if found is not None:
                    found.feed_control(sender, control, ts_ns)
            case _:
                self._handshake.learn(control)

    # --- frames that were seen too early

    def _is_early(self, sender: Peer, frame: Frame) -> bool:
        """Whether a frame answers, or is about, one that was not seen. If that is unknown, the frame is not early."""
        if not (frame.is_whole_segment and frame.begins_assembly):
            return False
        channel = self._by_channel.get(frame.channel)
        session = None if channel is None else channel.sessions[sender]
        is_known = session is not None and (session.knows_client if sender is SERVER else session.knows_state)
        if self._is_joined and not is_known:
            return False
        try:
            method: Any = frame.method
        except ProtocolError:
            return False
        if frame.kind == COMMAND:
            return session is not None and _is_early_command(session, sender, method)
        if self._is_joined and not isinstance(method, SessionCompleted):
            return False
        match method:
            case SessionAttached():
                return channel is None or all(each.name != method.name_ for each in channel.all())
            case SessionDetached():
                named = None if channel is None else channel.named(sender, method.name_ or b"")
                return named is None or not named.has_asked(sender.other, method)
            case SessionTimeout():
                return session is not None and not session.has_asked(sender.other, method)
            case SessionCompleted():
                return session is not None and not session.has_sent(sender.other, method.commands)
            case ConnectionOpenOk():
                return self._handshake.answered != "connection.open"
            case ConnectionClose():
                return sender is SERVER and self._handshake.unanswered > 0
            case ConnectionCloseOk():
                return not self._is_closed
        return False


def _is_early_command(session: AttachmentTrace, sender: Peer, method: Any) -> bool:
    match method:
        case MessageAccept() | MessageReject() | MessageRelease():
            return not session.has_sent(sender.other, method.transfers)
        case ExecutionResult() | ExecutionException():
            number = method.command_id
            return number is not None and not session.has_sent(sender.other, SequenceSet([(number, number)]))
        case MessageTransfer():
            return sender is SERVER and not session.has_subscription(method.destination or "")
    return False
