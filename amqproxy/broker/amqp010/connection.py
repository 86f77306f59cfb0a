"""One AMQP 0-10 client's connection as the broker sees it: bytes in, bytes out, and the sessions between.

One class, and so one long file: controls, turns, blocking and closing share one state.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import MessageAccept, MessageTransfer
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionCompleted,
)
from amqproxy.amqp010.domains import DetachCode
from amqproxy.amqp010.errors import (
    ConnectionForced,
    FramingError,
    InternalError,
    InvalidPath,
    ProtocolError,
    Scope,
)
from amqproxy.amqp010.frame import (
    BODY,
    FIRST_SEGMENT,
    LAST_SEGMENT,
    MAX_FRAME,
    WHOLE_SEGMENT,
    Frame,
    encode_method,
)
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Command, Control, Method
from amqproxy.amqp010.protocol_header import HEADER, SIZE
from amqproxy.amqp010.wire import Array, Map
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.amqp091.transitions import Peer
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.amqp010.attachments import Attachments
from amqproxy.broker.amqp010.exceptions import translated
from amqproxy.broker.amqp010.owners import SessionOfJob
from amqproxy.broker.amqp010.session import BrokerSession
from amqproxy.broker.amqp010.settlement_run import SettlementRun
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.closing import CLOSING_TIME, PENALTY, SocketClosing, closing_time
from amqproxy.broker.connections.login import Login
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job, Steps
from amqproxy.conversion.header_tables import map_of
from amqproxy.conversion.method_views import DEFAULT_VHOST

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

HANDSHAKE_TIME = 10.0
"""Seconds that a client has to open its connection."""

COMMAND_COST = 16
"""Operations that a command counts as, unless it belongs to every message."""

MAX_HEARTBEAT = 65_535
"""Seconds; the client chooses."""

MECHANISMS = ("PLAIN", "EXTERNAL")
"""Those of SASL that are offered, of those that the broker has."""

FEATURES = Map({"qpid.features": ["qpid.jms-selector"], "qpid.queue_lifetime_supported": "true"})
"""The server properties from which Qpid's clients know what they need not do themselves.

With the second, the JMS client lets its temporary queues go with their connection, and not with their session.
"""


class Stage(Enum):
    """What the connection waits for."""

    HEADER = auto()
    LOGIN = auto()
    TUNING = auto()
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()


_OPEN = Stage.OPEN  # these as C sees them
_TRANSFER, _ACCEPT, _COMPLETED = MessageTransfer.index, MessageAccept.index, SessionCompleted.index
_BODY, _WHOLE_SEGMENT = BODY, WHOLE_SEGMENT
_FIRST, _LAST = FIRST_SEGMENT | WHOLE_SEGMENT, LAST_SEGMENT | WHOLE_SEGMENT


class Amqp010Connection:
    """Plays SERVER to one client. What its owner does with it is as for `amqp091.connection`."""

    def __init__(
        self,
        broker: Broker,
        *,
        is_loopback: bool,
        wake: Callable[[], None],
        name: str = "",
        certificate_name: str | None = None,
        now: float | None = None,
    ) -> None:
        self.broker = broker
        self.name = name
        self.token = secrets.token_urlsafe(12)
        self.protocol = self
        """What its owner asks for the heartbeat, and notifies of what passes."""
        self.heartbeat = 0
        self.channel_max = broker.channel_max
        self.frame_max = MAX_FRAME
        self._attachments = Attachments(self)
        self.sessions = self._attachments.sessions
        self.vhost: VirtualHost | None = None
        self.exclusive_queues: dict[Queue, None] = {}
        """Those that go with the connection, and that all of its sessions may use."""
        self.output = OutputBuffer(MAX_FRAME, wake, broker.waiting)
        self.client_properties: Mapping[str, Any] = Map()
        self.is_over = False
        self.end: SocketClosing | None = None
        self.patience = 0.0
        self.is_blocked = False
        self.is_paused = False
        self.is_awaiting = False
        self._user: User | None = None
        self._login = Login(broker, is_loopback=is_loopback, certificate_name=certificate_name)
        self._stage = Stage.HEADER
        self._header = b""
        self._is_lost = False
        self._closing_line: tuple[str, dict[str, Any]] | None = None
        self._wake = wake
        self._is_draining = False
        self._fault: ProtocolError | None = None
        self._failures: dict[SessionOfJob, ProtocolError] = {}
        self._unread: list[Frame] = []
        self._place = 0
        self._is_busy = self._is_listed = False
        self._jobs: deque[tuple[Steps, SessionOfJob | None, int]] = deque()
        self._quantum = broker.work.quantum
        self._turns: dict[SessionOfJob, None] = {}
        self._is_in_turn = False
        self._assemblies = self._attachments.readers
        self._ends_at: float | None = None
        self._received_at = self._sent_at = 0.0 if now is None else now
        self._settlements = SettlementRun()
        self._reader = FrameReader()
        self._reader.zero_copy = True
        broker.connections[self] = None
        if now is not None:
            self._end_by(now + HANDSHAKE_TIME)

    @property
    def user(self) -> User:
        """The user that has logged in."""
        assert self._user is not None
        return self._user

    @property
    def channels(self) -> Mapping[int, BrokerSession]:
        """The sessions by their channels."""
        return self.sessions

    @property
    def bytes_arriving(self) -> int:
        """Bytes of commands of which the rest is to come."""
        return sum([reader.size for reader in self._assemblies.values()])

    @property
    def address(self) -> str:
        """The client's address, without its port."""
        return self.name.partition(" ")[0].rpartition(":")[0]

    def is_of(self, user: User) -> bool:
        """Has this user logged in?"""
        return self._user is user

    # --- bytes

    def note_received(self, sender: Peer, now: float) -> None:
        """Something has come from a peer."""
        if sender is Peer.CLIENT:
            self._received_at = now
        else:
            self._sent_at = now

    def feed(self, data: bytes, now: float) -> None:
        """Take what the client sent. Whatever is wrong with it is answered; nothing is raised."""
        if self.is_over:
            return
        self._received_at = now
        if self._stage is Stage.HEADER:
            data = self._greet(data)
        if not data or self._is_draining:
            return
        frames = self._reader.feed(data)
        if self._reader.error is not None:
            self._is_draining = True
            self._fault = self._reader.error
        if self._unread or self._is_busy:
            self._unread += frames
        else:
            self._take(frames, now)
            if self.is_behind:
                self._go_on_later()

    def _greet(self, data: bytes) -> bytes:
        """Answer the protocol header, which is known to be that of 0-10; what is behind it."""
        if not self._header:
            self.log("info", "connection accepted")
        self._header += data
        if len(self._header) < SIZE:
            return b""
        self._stage = Stage.LOGIN
        self._reader.skip(SIZE)
        self.output.put(HEADER)
        mechanisms = [each for each in self._login.mechanisms.decode().split() if each in MECHANISMS]
        properties = Map([*map_of(self.broker.properties).entries, *FEATURES.entries])
        self.send_method(0, ConnectionStart(properties, Array("str16", mechanisms), Array("str16", ["en_US"])))
        return self._header[SIZE:]

    def _take(self, frames: list[Frame], now: float) -> None:
        """Do what the frames ask for, in their order, as far as this turn goes: the others are `_unread` then."""
        quantum, alarms, assemblies = self._quantum, self.broker.alarms, self._assemblies
        place: cython.Py_ssize_t = self._place
        count: cython.Py_ssize_t = len(frames)
        frame: Frame
        session: BrokerSession
        while place < count and not self.is_over:
            if self._is_busy or (quantum.left <= 0 and quantum.is_over()):
                break
            frame = frames[place]
            if frame.index == _TRANSFER and self._stage is _OPEN:
                if alarms:
                    self.is_blocked = True
                    break
                if place + 2 < count and self._take_transfer(frame, frames[place + 1], frames[place + 2], now):
                    place += 3
                    quantum.left -= 3
                    continue
            place += 1
            quantum.left -= 1
            try:
                # There is one for each channel with a session, and for no other channel.
                reader: AssemblyReader | None = assemblies.get(frame.channel)
                if reader is None or self._stage is not _OPEN:
                    self._receive(frame, now)
                    continue
                if frame.index == _COMPLETED or frame.index == _ACCEPT:
                    session = self.sessions[frame.channel]
                    settled: cython.Py_ssize_t = session.receive_settlements(self._settlements, frames, place - 1, now)
                    if settled:
                        place += settled - 1
                        quantum.left -= settled - 1
                        continue
                assembly = reader.add(frame)
                if assembly is None:
                    if len(frame._buffer) > 2 * frame.length():
                        frame._raw()  # else all that has come with it would stay until the rest is there
                    continue
                if frame.track:
                    session = self.sessions[frame.channel]
                    session.receive(assembly, now)
                else:
                    self._take_control(assembly, now)
            except (ProtocolError, ProtocolError091) as error:
                self._refuse(frame, error, now)
        if self.is_over:
            place = count
        self._unread, self._place = (frames, place) if place < count else ([], 0)
        self._end_turns()
        if self._fault is not None and not self._unread and not self._is_busy:
            fault, self._fault = self._fault, None
            self._close(fault, now)

    def _take_transfer(self, command: Frame, header: Frame, body: Frame, now: float) -> cython.bint:
        """Take a transfer that lies in three frames, as most do, and is as ones before it: then nothing is decoded."""
        if (
            command.flags != _FIRST
            or header.flags != _WHOLE_SEGMENT
            or body.flags != _LAST
            or body.kind != _BODY
            or header.channel != command.channel
            or body.channel != command.channel
        ):
            return False
        session: BrokerSession | None = self.sessions.get(command.channel)
        if session is None:
            return False
        try:
            return session.receive_known(command, header, body, now)
        except (ProtocolError, ProtocolError091) as error:
            self._refuse(command, error, now)
            return True

    def to_end_turn(self, session: SessionOfJob) -> None:
        """Let a session report what is complete at the end of this turn."""
        self._turns[session] = None

    def forget(self, session: SessionOfJob) -> None:
        """A session is not attached any more."""
        self._turns.pop(session, None)
        self._failures.pop(session, None)

    def _end_turns(self) -> None:
        while self._turns:
            turns, self._turns = self._turns, {}
            for session in turns:
                session.end_turn()

    def is_costly(self) -> None:
        """What is done is a command that does not belong to every message."""
        self._quantum.left -= COMMAND_COST
        self._quantum.hasten()

    # --- what a turn leaves to later ones

    @property
    def is_behind(self) -> bool:
        """Is there something to be done before more is read?"""
        return self._is_busy or (self._place < len(self._unread) and not self.is_blocked)

    def do(self, job: Job, now: float, session: SessionOfJob | None = None, position: int = 0) -> None:
        """Do a job before anything more that the client asks for: now, as far as this turn goes, and then later.

        A `ProtocolError` that ends it ends the session whose command asked for it.
        """
        self._quantum.hasten()
        steps = Steps(job)
        if not self._is_busy and not steps.go_on(now):
            return
        self._jobs.append((steps, session, position))
        self._is_busy = True
        self._go_on_later()

    def _go_on_later(self) -> None:
        if not self._is_listed:
            self._is_listed = True
            self.broker.work.add(self._go_on)

    def _go_on(self, now: float) -> bool:
        """Do a turn's part of what is to be done: is there more?"""
        self._do_jobs(now)
        if not self._is_busy and not self.is_blocked and not self.is_over:
            self._take(self._unread, now)
        self._end_turns()
        if self.is_behind:
            return True
        self._is_listed = False
        if not self.is_over:
            self._wake()
        return False

    def _do_jobs(self, now: float) -> None:
        while self._jobs:
            steps, session, position = self._jobs[0]
            failure: ProtocolError | ProtocolError091 | None = None
            try:
                if steps.go_on(now):
                    return
            except (ProtocolError, ProtocolError091) as error:
                failure = error
            except Exception:
                self._jobs.popleft()
                self._is_listed = False
                self.fail(now)
                raise
            self._jobs.popleft()
            if failure is not None:
                self._fail_session(session, failure, position, now)
        self._is_busy = False

    def _fail_session(
        self, session: SessionOfJob | None, error: ProtocolError | ProtocolError091, position: int | None, now: float
    ) -> None:
        try:
            if session is None:
                self._close(_of_connection(error), now)
            else:
                session.fail(error, position, None, now)
        except ProtocolError as of_connection:
            self._close(of_connection, now)

    # --- output

    def send_method(self, channel: int, method: Method) -> None:
        """Send a control, or a command without content."""
        self.output.put(encode_method(channel, method, self.frame_max))

    @property
    def waiting(self) -> int:
        """Bytes that are not known to be sent."""
        return self.output.waiting

    def take_output(self) -> bytes:
        """All that is to be sent now."""
        return self.output.take_bytes()

    def take_pieces(self) -> list[bytes]:
        """The same, in pieces: large bodies are not copied."""
        return self.output.take_pieces()

    def sent(self, now: float) -> None:
        """What was taken is sent: there is room again."""
        self._sent_at = now
        if self.output.sent():
            for session in list(self.sessions.values()):
                session.deliveries.pump(now)

    def alarms_changed(self, now: float) -> None:
        """Let the client go on, if nothing is short any more."""
        if not self.is_blocked or self.broker.alarms:
            return
        self.is_blocked = False
        if not self._is_busy:
            self._take(self._unread, now)
        if self.is_behind:
            self._go_on_later()
        self._wake()

    # --- what comes

    def _receive(self, frame: Frame, now: float) -> None:
        channel = frame.channel
        if self._stage is not Stage.OPEN and (channel or frame.track):
            if self._stage is not Stage.CLOSING:
                raise FramingError("a session's frame before connection.open-ok", channel=channel)
            return
        if frame.track and channel not in self.sessions:
            if frame.ends_assembly:
                self._attachments.refuse(channel)
            return
        reader = self._assemblies.get(channel)
        if reader is None:
            if frame.track and not frame.begins_assembly:
                raise FramingError("the rest of a command where a new one was announced", channel=channel)
            reader = self._assemblies[channel] = AssemblyReader(self.broker.max_message_size)
        assembly = reader.add(frame)
        if not frame.track and channel not in self.sessions:
            del self._assemblies[channel]
            if assembly is None:
                raise FramingError("a control in several frames, where no session is attached", channel=channel)
        if assembly is None:
            return
        if frame.track:
            self.sessions[channel].receive(assembly, now)
        else:
            self._take_control(assembly, now)

    def _take_control(self, assembly: Assembly, now: float) -> None:
        channel = assembly.channel
        control: Control = assembly.method
        if type(control) is SessionCompleted and (session := self.sessions.get(channel)) is not None:
            session.take_completed(control, now)
            return
        if control.class_code == ConnectionClose.class_code:
            if channel:
                raise FramingError(f"{control.name} on channel {channel}", channel=channel)
            self._handle(control, now)
        elif self._stage is Stage.OPEN:
            self._attachments.take(channel, control, now)
        elif self._stage is not Stage.CLOSING:
            raise FramingError(f"{control.name} before connection.open-ok", channel=channel)

    def _refuse(self, frame: Frame, error: ProtocolError | ProtocolError091, now: float) -> None:
        """Answer a frame that is at fault, or the command that it ends, which its session has not taken."""
        session = self.sessions.get(frame.channel)
        if session is None or _scope(error) is Scope.CONNECTION:
            self._close(_of_connection(error), now)
        else:
            self._fail_session(session, error, session.next_position if frame.track else None, now)

    def _handle(self, control: Control, now: float) -> None:
        self.is_costly()
        stage = self._stage
        match control:
            case ConnectionHeartbeat():
                pass
            case ConnectionClose():
                self._close_for_client(control, now)
            case ConnectionCloseOk():
                if stage is not Stage.CLOSING:
                    raise FramingError("connection.close-ok, where nothing was closed")
                self._end(SocketClosing.AGREED)
            case _ if stage is Stage.CLOSING:
                pass
            case ConnectionStartOk() if stage is Stage.LOGIN:
                self._log_in(control, now)
            case ConnectionTuneOk() if stage is Stage.TUNING:
                self._agree(control)
            case ConnectionOpen() if stage is Stage.OPENING:
                self._enter(control.virtual_host or DEFAULT_VHOST, now)
            case _:
                raise FramingError(f"{control.name}, which does not belong here")

    def _log_in(self, start_ok: ConnectionStartOk, now: float) -> None:
        self.client_properties = start_ok.client_properties or Map()
        mechanism = start_ok.mechanism or ""
        reason = "" if mechanism in MECHANISMS else "the mechanism is not offered"
        if not reason:
            try:
                self._user = self._login.log_in(mechanism, start_ok.response or b"")
            except LoginRefused as error:
                reason = str(error)
            except ProtocolError091 as error:
                reason = error.text
        if reason:
            user = self._login.user_name or None
            self.log("warning", "login refused", mechanism=mechanism, user=user, reason=reason)
            self._closing_line = "debug", {"by": "broker", "reason": "login refused"}
            self.broker.refused.add(self, self.address)
            self._send_close(ConnectionForced("Authentication failed"), now + PENALTY)
            return
        self._stage = Stage.TUNING
        largest = self.broker.frame_max or MAX_FRAME
        heartbeat = MAX_HEARTBEAT if self.broker.heartbeat else 0
        self.send_method(0, ConnectionTune(self.broker.channel_max, min(largest, MAX_FRAME), 0, heartbeat))

    def _agree(self, tune_ok: ConnectionTuneOk) -> None:
        offered = min(self.broker.frame_max or MAX_FRAME, MAX_FRAME)
        wanted = tune_ok.max_frame_size or offered
        if wanted > offered:
            raise FramingError(f"a max-frame-size of {wanted}, where {offered} was offered")
        most = self.broker.channel_max
        self.channel_max = tune_ok.channel_max or most
        if self.channel_max > most:
            raise FramingError(f"a channel-max of {self.channel_max}, where {most} was offered")
        self.frame_max = self.output.frame_max = wanted
        self._reader.set_frame_max(wanted)
        self._reader.set_channel_max(self.channel_max)
        self.heartbeat = tune_ok.heartbeat or 0
        self._stage = Stage.OPENING

    def _enter(self, name: str, now: float) -> None:
        try:
            self.vhost = self._login.enter(name, self.user)
        except ProtocolError091 as error:
            if name not in self.broker.vhosts:
                raise InvalidPath(error.text) from None
            raise ConnectionForced(error.text) from None
        self._stage = Stage.OPEN
        self.send_method(0, ConnectionOpenOk())
        self._ends_at = None
        self._set_timer(now)
        product = _text(self.client_properties, "product")
        self.log("info", "connection open", product=product, heartbeat=self.heartbeat or None, protocol="0-10")
        self.report("connection.created", self)

    def _close_for_client(self, close: ConnectionClose, now: float) -> None:
        if self._stage is Stage.CLOSING:  # both have closed
            self.send_method(0, ConnectionCloseOk())
            return
        code = close.reply_code or 0
        fields = {"by": "client", "code": code or None, "reason": close.reply_text or None}
        self._closing_line = "info" if code in (0, 200) else "warning", fields
        self._stage = Stage.CLOSING
        self.do(self._closed_by_client(now), now)

    def report(self, name: str, subject: object) -> None:
        """Report to observers what has become of this connection, or of a session."""
        events = self.broker.events
        if events.observers and self.vhost is not None:
            events.report(name, self.vhost.name, subject, connection=self)

    # --- what its sessions ask of it

    def detached(self, session: SessionOfJob, code: DetachCode, now: float) -> None:
        """Detach a session, for a reason that is no exception."""
        self._attachments.detached(session, code, now)

    def end_session(self, session: SessionOfJob, now: float) -> None:
        """Let a session end, whose last control is sent."""
        self._attachments.end(session, now)

    def fail_session_soon(self, session: SessionOfJob, error: ProtocolError) -> None:
        """End a session with an exception at the next tick: what has failed did so in the middle of something else."""
        self._failures.setdefault(session, error)
        self.broker.timed_connections.set(self, 0.0)

    def log_exception(self, number: int, error: ProtocolError, command: Command | None) -> None:
        """Write a line about what ends a session."""
        operation = None if command is None else command.name
        code = int(error.code)
        self.log("warning", "session error", channel=number, code=code, operation=operation, reason=error.reply_text)

    # --- time

    def tick(self, now: float) -> None:
        """Do what is due: hang up on a client that takes too long or has fallen silent, or send a heartbeat."""
        if self.is_over:
            return
        failures, self._failures = self._failures, {}
        for session, error in failures.items():
            self._fail_session(session, error, None, now)
        is_open = self._stage is Stage.OPEN
        is_read = not self.is_blocked and not self.is_behind and not self.is_paused
        heartbeat = self.heartbeat
        if is_open and heartbeat and is_read and now - self._received_at > 2 * heartbeat:
            self.cut(f"missed heartbeats from client, timeout: {heartbeat}s")
            return
        if self._ends_at is not None and self._ends_at <= now:
            self.cut("" if self._stage is Stage.CLOSING else "handshake timeout")
            return
        if is_open and heartbeat and now - self._sent_at >= heartbeat / 2:
            self.send_method(0, ConnectionHeartbeat())
            self._sent_at = now
        self._set_timer(now)

    def _end_by(self, when: float) -> None:
        self._ends_at = when
        self.broker.timed_connections.set(self, when)

    def _set_timer(self, now: float) -> None:
        """Heartbeats are checked four times in each interval."""
        if self._ends_at is not None:
            self.broker.timed_connections.set(self, self._ends_at)
        elif self.heartbeat:
            self.broker.timed_connections.set(self, now + self.heartbeat / 4)
        else:
            self.broker.timed_connections.drop(self)

    # --- the end

    def fail(self, now: float) -> None:
        """Close the connection: the broker is at fault."""
        self._close(ConnectionForced("the broker failed; its log says how"), now)

    def give_up(self, now: float) -> None:
        """The same, also where not even that can be done any more: then only the socket is closed."""
        try:
            self.fail(now)
        except Exception as error:  # noqa: BLE001
            self.broker.events.fail("connection failed", error, client=self.name)
            self.cut()

    def end_channel(self, number: int, error: ProtocolError091, now: float) -> None:
        """End one session, with no command at fault."""
        session = self.sessions.get(number)
        if session is not None:
            session.fail(translated(error), None, None, now)

    def close(self, reason: str, now: float) -> None:
        """Close the connection with 320 and a reason."""
        self._close(ConnectionForced(reason), now)

    def _close(self, error: ProtocolError, now: float) -> None:
        if self._stage is Stage.CLOSING:
            return
        code = int(error.code)
        self.log("info" if code == 320 else "warning", "connection error", code=code, reason=error.reply_text)
        self._closing_line = "info", {"by": "broker", "code": code}
        if self._stage in (Stage.HEADER, Stage.LOGIN):
            self._stage = Stage.CLOSING
            self._end(SocketClosing.REFUSED, PENALTY)
            return
        self._stage = Stage.CLOSING
        self.do(self._closing(error, now), now)

    def _closing(self, error: ProtocolError, now: float) -> Job:
        now = yield from self._attachments.losing_all(now, may_come_back=False)
        if not self.is_over:
            self._send_close(error, now + closing_time(self.heartbeat))

    def _send_close(self, error: ProtocolError, ends_at: float) -> None:
        self._stage = Stage.CLOSING
        self.send_method(0, ConnectionClose(error.code, error.reply_text))
        self.is_blocked = False
        self._unread, self._place = [], 0
        self._end_by(ends_at)

    def _closed_by_client(self, now: float) -> Job:
        yield from self._attachments.losing_all(now)
        self.send_method(0, ConnectionCloseOk())
        self._end(SocketClosing.CLOSED, closing_time(self.heartbeat))

    def cut(self, reason: str = "") -> None:
        """Have the socket reset at once, whatever is still to be sent. A reason is logged as a warning."""
        if reason:
            self._closing_line = "warning", {"by": "broker", "reason": reason}
        self._end(SocketClosing.LOST)

    def _end(self, end: SocketClosing, patience: float = CLOSING_TIME) -> None:
        self.is_over = True
        self.end = end
        self.patience = patience
        self._wake()

    def lose(self, now: float, *, is_gone: bool = True) -> None:
        """The client is gone, or as good as: its sessions end. `is_gone` is true when it has closed the socket."""
        if not self._is_lost:
            self._is_lost = True
            self._log_end(is_gone=is_gone)
        self.is_over = True
        self._unread, self._place = [], 0
        self.broker.timed_connections.drop(self)
        self.do(self._losing(now), now)

    def _losing(self, now: float) -> Job:
        yield from self._attachments.losing_all(now)
        if self.broker.connections.pop(self, self) is None:
            self.report("connection.closed", self)
        self._unread = []
        self.output.close()
        self._wake = _do_nothing

    # --- the log

    def log(self, level: str, event: str, **fields: Any) -> None:
        """Write a line that is about this client. One within this process is its owner's, who logs it too."""
        if not self.name and level == "info":
            level = "debug"
        known = {
            "client": self.name or None,
            "name": _text(self.client_properties, "clientName"),
            "user": self._user.name if self._user is not None else None,
            "vhost": self.vhost.name if self.vhost is not None else None,
        }
        self.broker.events.log(level, event, self.address, **{**known, **fields})

    def _log_end(self, *, is_gone: bool) -> None:
        level, fields = self._closing_line or ("info", {})
        if self._closing_line is None and is_gone:
            level, fields = "warning", {"by": "client", "reason": "client unexpectedly closed TCP connection"}
        self.log(level, "connection closed", **fields)


def _do_nothing() -> None:
    """In place of `wake`, once the connection is over."""


def _scope(error: ProtocolError | ProtocolError091) -> Scope:
    return error.scope if isinstance(error, ProtocolError) else Scope.SESSION


def _of_connection(error: ProtocolError | ProtocolError091) -> ProtocolError:
    """An error that closes the connection."""
    if isinstance(error, ProtocolError091):
        error = translated(error)
    if error.scope is Scope.CONNECTION:
        return error
    if isinstance(error, InternalError):
        return ConnectionForced(error.text)
    return FramingError(error.text, channel=error.channel, offset=error.offset)


def _text(properties: Mapping[str, Any], name: str) -> str | None:
    """A client's property, where it is a text."""
    value = properties.get(name)
    return value if isinstance(value, str) else None
