"""The live 0-10 connection of a replay: bytes from and to a broker, and all actions apart from the recorded ones.

It sends heartbeats, completes commands, answers closes, and keeps the broker's commands until the recording asks for
them. There is no clock and no socket: the time is passed in, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.commands import (
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageReject,
    MessageRelease,
    MessageTransfer,
)
from amqproxy.amqp010.domains import RejectCode
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import FRAME_MIN_SIZE, MAX_FRAME, Frame, encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Command, Control, Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import BasicAck
from amqproxy.amqp091.methods import Method as Method091
from amqproxy.capture.amqp010.frame_cuts import frame_bounds
from amqproxy.capture.amqp010.secrets import masked
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.peer import CLIENT, SERVER
from amqproxy.replay.amqp010.session import PlayedSession, ids_of, remember, set_of
from amqproxy.replay.broker_link import BrokerLink, Life, ReplayedStream, least
from amqproxy.replay.content_key import content_key
from amqproxy.replay.deliveries import LiveDelivery

SETTLEMENTS = (MessageAccept, MessageReject, MessageRelease)


class Amqp010LiveConnection(BrokerLink):
    """One 0-10 connection to a broker."""

    CLOSE_OK = controls.ConnectionCloseOk()
    _masked = staticmethod(masked)

    def __init__(self, replayed: ReplayedStream, *, wake: Callable[[], None]) -> None:
        super().__init__(replayed, wake=wake)
        self._suffix = replayed.names.suffix
        self._reader = FrameReader(frame_max=0)
        self._numbering = CommandNumbering()
        self._assemblies: dict[int, AssemblyReader] = {}
        self._sessions: dict[int, PlayedSession] = {}
        self._greeting = b""
        self._start: controls.ConnectionStart | None = None
        self._tune: controls.ConnectionTune | None = None
        self._close_received: controls.ConnectionClose | None = None
        self._is_open = False
        self._frame_max = FRAME_MIN_SIZE
        self._interval = 0

    # --- the socket

    def _greet(self) -> None:
        self._trace.feed_protocol_header(self._now_ns)
        self._write(HEADER)

    def _feed(self, data: bytes) -> None:
        if len(self._greeting) < len(HEADER):
            missing = len(HEADER) - len(self._greeting)
            self._greeting, data = self._greeting + data[:missing], data[missing:]
            if not HEADER.startswith(self._greeting):
                self.fault(f"the broker does not speak AMQP 0-10: it sent {self._greeting!r}")
                return
        if self.life is not Life.CONNECTED:
            return
        for frame in self._reader.feed(data):
            self._result.live.note(self._trace.feed_noted(SERVER, [frame], self._now_ns))
            self._receive_frame(frame)
        if self._reader.error is not None:
            self.fault(f"the broker sent what is no frame: {self._reader.error.text}")

    @property
    def received(self) -> int:
        return self._reader.offset

    @property
    def _heartbeat(self) -> float:
        return self._interval if self._is_open else 0

    def _send_heartbeat(self) -> None:
        self._send(0, controls.ConnectionHeartbeat())

    @property
    def _is_entering(self) -> bool:
        return self._is_joined and not self._is_open

    def _ask_for_end(self) -> None:
        if self._is_open and not self._is_ending:
            self._is_ending = True
            self._send(0, controls.ConnectionClose(200, "the replay is over"))
        elif not self._is_ending:
            self._close("close")

    # --- sending

    def _send(self, channel: int, method: Method) -> None:
        """Send a control, or a command without content."""
        self._write_frames(encode_method(channel, method, self._frame_max))

    def _write_frames(self, data: bytes) -> None:
        frames = [Frame(data[start:end]) for start, end in frame_bounds(data)]
        self._result.live.note(self._trace.feed_noted(CLIENT, frames, self._now_ns))
        self._write(data)

    def _attach(self, number: int, name: bytes) -> PlayedSession:
        """Attach a session, with command ids from 0."""
        session = self._sessions[number] = PlayedSession(number, name + self._suffix.encode())
        self._send(number, controls.SessionAttach(session.name))
        self._send(number, controls.SessionCommandPoint(0, 0))
        return session

    def _complete(self, session: PlayedSession, live_ids: list[int]) -> None:
        """Complete commands of the broker by session.completed."""
        if live_ids and not session.is_over:
            self._send(session.number, controls.SessionCompleted(session.complete(live_ids)))

    def settle_transfers(self, number: int, method: Any, ids: SequenceSet) -> None:
        """Settle deliveries on this connection; their recorded counterparts may have been on another one."""
        session = self._sessions.get(number)
        if session is not None and not session.is_over and self.life is Life.CONNECTED:
            self._send(number, replace(method, transfers=ids))
            session.sent(None)

    def settle(self, delivery: LiveDelivery, method: Method091) -> None:
        """Settle one delivery as a recorded 0-9-1 client did, whose delivery it stands for."""
        delivery.is_open = False
        if isinstance(method, BasicAck):
            settlement: Command = MessageAccept()
        else:
            requeue = getattr(method, "requeue", False)
            settlement = MessageRelease() if requeue else MessageReject(code=RejectCode.UNSPECIFIED)
        self.settle_transfers(delivery.channel, settlement, SequenceSet([(delivery.tag, delivery.tag)]))

    # --- the broker's frames

    def _receive_frame(self, frame: Frame) -> None:
        command_id = self._numbering.number(frame)
        reader = self._assemblies.get(frame.channel)
        if reader is None:
            reader = self._assemblies[frame.channel] = AssemblyReader()
        try:
            assembly = reader.add(frame)
        except ProtocolError as error:
            self.fault(f"the broker sent what cannot be read: {error.text}")
            return
        if assembly is None:
            return
        session = self._sessions.get(assembly.channel)
        if isinstance(assembly.method, Command):
            if session is not None:
                self._receive_command(session, assembly, command_id or 0)
        elif assembly.method.name.startswith("connection."):
            self._receive_on_connection(assembly.method)
        elif session is not None:
            self._receive_control(session, assembly.method)

    def _receive_on_connection(self, control: Control) -> None:
        match control:
            case controls.ConnectionStart():
                self._start = control
                if self._is_joined:
                    self._log_in(controls.ConnectionStartOk(Map({"product": "amqproxy replay"})))
            case controls.ConnectionTune():
                self._tune = control
                if self._is_joined:
                    self._agree(controls.ConnectionTuneOk(control.channel_max, control.max_frame_size, 0))
                    self._enter(controls.ConnectionOpen(self._recorded_host or "/"))
            case controls.ConnectionOpenOk():
                self._is_open = True
            case controls.ConnectionClose():
                self._close_received = control
                self.error = f"the connection was closed: {control.reply_code} {control.reply_text or ''}".strip()
                self._answer_connection_close()
            case controls.ConnectionCloseOk():
                self._close("close")
            case _:
                pass

    def _log_in(self, recorded: controls.ConnectionStartOk) -> None:
        """Log in as the target's user."""
        response = f"\0{self._target.user}\0{self._target.password}".encode()
        self._send(0, replace(recorded, mechanism="PLAIN", response=response))

    def _agree(self, recorded: controls.ConnectionTuneOk) -> None:
        """Agree on the recorded limits, capped by those that the live broker offers."""
        tune = self._tune or controls.ConnectionTune()
        frame_max = least(recorded.max_frame_size or 0, tune.max_frame_size or 0) or MAX_FRAME
        heartbeat = min(recorded.heartbeat or 0, tune.heartbeat_max or 0)
        channel_max = least(recorded.channel_max or 0, tune.channel_max or 0)
        self._send(0, controls.ConnectionTuneOk(channel_max, frame_max, heartbeat))
        self._frame_max, self._interval = frame_max, heartbeat

    def _enter(self, recorded: controls.ConnectionOpen) -> None:
        """Open the target's virtual host, or the recorded one if the target has none."""
        wanted = self._target.virtual_host
        method = recorded if wanted is None else replace(recorded, virtual_host=wanted)
        self._virtual_host = method.virtual_host or ""
        self._send(0, method)

    def _receive_control(self, session: PlayedSession, control: Control) -> None:
        match control:
            case controls.SessionAttached():
                session.is_attached = True
            case controls.SessionDetach():
                self._send(session.number, controls.SessionDetached(control.name_, 0))
                self._end_session(session, "the session was detached")
            case controls.SessionDetached():
                self._end_session(session, f"the session is not attached: code {control.code or 0}")
            case controls.SessionCompleted():
                for ids in ids_of(control.commands):
                    session.completed.add(ids)
                if control.timely_reply:
                    self._send(session.number, controls.SessionKnownCompleted(control.commands))
            case controls.SessionFlush() if control.completed:
                self._send(session.number, controls.SessionCompleted(set_of(session.done)))
            case controls.SessionRequestTimeout():
                self._send(session.number, controls.SessionTimeout(control.timeout))
            case _:
                pass

    def _receive_command(self, session: PlayedSession, assembly: Assembly, command_id: int) -> None:
        method = assembly.method
        match method:
            case MessageTransfer():
                self._receive_transfer(session, assembly, command_id)
                return
            case ExecutionResult():
                remember(session.results, method.command_id or 0, method)
            case ExecutionException():
                session.exception = method
                session.why_over = f"the session was closed: {method.error_code} {method.description or ''}".strip()
            case MessageAccept() | MessageReject() | MessageRelease():
                for ids in ids_of(method.transfers):
                    for each in ids[: len(session.live_ids)]:
                        remember(session.settled, each, method.name)
            case _:
                pass
        self._complete(session, [command_id])

    def _receive_transfer(self, session: PlayedSession, assembly: Assembly, command_id: int) -> None:
        view = command_view(SERVER, assembly, command_id)
        subscription = session.subscriptions.get(assembly.method.destination or "")
        assert view is not None
        if subscription is None:
            name, number = assembly.method.name, session.number
            self._result.extra(view, self.stream, self.connection, self._now_ns, name=name, session=number)
            return
        key = content_key(self._names.recorded(view))
        delivery = LiveDelivery(self, session.number, command_id, subscription.queue, key, view, is_open=True)
        delivery.is_kept = subscription.is_ending or session.is_ending
        session.open[command_id] = delivery
        self._keep_delivery(delivery)

    # --- the end

    def _end_session(self, session: PlayedSession, reason: str) -> None:
        session.is_over = True
        session.is_attached = False
        session.why_over = session.why_over or reason
        for delivery in session.open.values():
            delivery.is_open = False
        session.open.clear()

    def _end_channels(self) -> None:
        for session in self._sessions.values():
            self._end_session(session, self.error)
