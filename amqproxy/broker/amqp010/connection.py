"""The connection of an AMQP 0-10 client: its handshake, the sessions on its channels, and how each is closed."""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Unpack

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
from amqproxy.broker.access.users import LoginRefused
from amqproxy.broker.amqp010.attachments import Attachments
from amqproxy.broker.amqp010.exceptions import translated
from amqproxy.broker.amqp010.orphans import orphaning
from amqproxy.broker.amqp010.owners import SessionOfJob
from amqproxy.broker.amqp010.session import BrokerSession
from amqproxy.broker.amqp010.settlement_run import SettlementRun
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.client_connection import METHOD_COST, ClientConnection, ClientFacts
from amqproxy.broker.connections.closing import PENALTY, SocketClosing, closing_time
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.work import Job
from amqproxy.conversion.amqp010.header_tables import map_of
from amqproxy.conversion.amqp010.method_views import DEFAULT_VHOST
from amqproxy.peer import Heartbeats

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if TYPE_CHECKING:
    Frames = list[Frame]  # unknown to Cython, which takes the type of the .pxd

MAX_HEARTBEAT = 65_535
"""Maximum heartbeat interval in seconds; the client chooses the interval."""

MECHANISMS = ("PLAIN", "EXTERNAL")
"""SASL mechanisms that are offered, if the broker has them."""

FEATURES = Map({"qpid.features": ["qpid.jms-selector"], "qpid.queue_lifetime_supported": "true"})
"""Server properties that tell Qpid's clients what they need not do themselves.

With the second, the JMS client binds the lifetime of its temporary queues to their connection instead of their session.
"""


class Stage(Enum):
    """Stage of a connection, by what it waits for."""

    HEADER = auto()
    LOGIN = auto()
    TUNING = auto()
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()


_OPEN = Stage.OPEN  # these are typed in the .pxd file
_TRANSFER, _ACCEPT, _COMPLETED = MessageTransfer.index, MessageAccept.index, SessionCompleted.index
_BODY, _WHOLE_SEGMENT = BODY, WHOLE_SEGMENT
_FIRST, _LAST = FIRST_SEGMENT | WHOLE_SEGMENT, LAST_SEGMENT | WHOLE_SEGMENT


class Amqp010Connection(ClientConnection):
    """The SERVER peer of one client's connection, which behaves as Qpid's Broker-J does."""

    channel_noun = "session"
    name_property = "clientName"
    faults = (ProtocolError, ProtocolError091)

    def __init__(self, broker: Broker, **client: Unpack[ClientFacts]) -> None:
        self._heartbeats = Heartbeats()
        super().__init__(broker, self._heartbeats, MAX_FRAME, **client)
        self.channel_max = broker.channel_max
        self.frame_max = MAX_FRAME
        self._attachments = Attachments(self)
        self.channels = self._attachments.sessions
        self._stage = Stage.HEADER
        self._header = b""
        self._is_draining = False
        self._failures: dict[SessionOfJob, ProtocolError] = {}
        self._turns: dict[SessionOfJob, None] = {}
        self._assemblies = self._attachments.readers
        self._settlements = SettlementRun()
        self._reader = FrameReader()
        self._reader.zero_copy = True

    @property
    def bytes_arriving(self) -> int:
        """Bytes received of commands whose rest is to come."""
        return sum([reader.size for reader in self._assemblies.values()])

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done and neither peer is closing."""
        return self._stage is Stage.OPEN

    @property
    def _is_open(self) -> bool:
        return self.is_open

    @property
    def _is_closing(self) -> bool:
        return self._stage is Stage.CLOSING

    # --- bytes

    def _read(self, data: bytes, now: float) -> list[Frame]:
        if self._stage is Stage.HEADER:
            data = self._greet(data)
        if not data or self._is_draining:
            return []
        frames = self._reader.feed(data)
        if self._reader.error is not None:
            self._is_draining = True
            self._fault = self._reader.error
        return frames

    def _answer_fault(self, fault: ProtocolError, now: float) -> None:
        self._close(fault, now)

    def _greet(self, data: bytes) -> bytes:
        """Answer the protocol header, which is known to be that of 0-10; return the bytes after it."""
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

    def _take(self, frames: Frames, now: float) -> None:
        """Process the frames in order, as far as this turn allows; the rest stays in `_unread`."""
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
                # Only channels with a session have a reader.
                reader: AssemblyReader | None = assemblies.get(frame.channel)
                if reader is None or self._stage is not _OPEN:
                    self._receive(frame, now)
                    continue
                if frame.index == _COMPLETED or frame.index == _ACCEPT:
                    session = self.channels[frame.channel]
                    settled: cython.Py_ssize_t = session.receive_settlements(self._settlements, frames, place - 1, now)
                    if settled:
                        place += settled - 1
                        quantum.left -= settled - 1
                        continue
                assembly = reader.add(frame)
                if assembly is None:
                    if len(frame._buffer) > 2 * frame.length():
                        frame._raw()  # or its whole read buffer would stay in memory until the rest has come
                    continue
                if frame.track:
                    session = self.channels[frame.channel]
                    session.receive(assembly, now)
                else:
                    self._take_control(assembly, now)
            except (ProtocolError, ProtocolError091) as error:
                self._refuse(frame, error, now)
        self._leave(frames, place, now)

    def _take_transfer(self, command: Frame, header: Frame, body: Frame, now: float) -> cython.bint:
        """Take a transfer of three frames, as most are, if it matches earlier ones: then nothing is decoded."""
        if (
            command.flags != _FIRST
            or header.flags != _WHOLE_SEGMENT
            or body.flags != _LAST
            or body.kind != _BODY
            or header.channel != command.channel
            or body.channel != command.channel
        ):
            return False
        session: BrokerSession | None = self.channels.get(command.channel)
        if session is None:
            return False
        try:
            return session.receive_known(command, header, body, now)
        except (ProtocolError, ProtocolError091) as error:
            self._refuse(command, error, now)
            return True

    def to_end_turn(self, session: SessionOfJob) -> None:
        """Schedule a session's report of its completions for the end of this turn."""
        self._turns[session] = None

    def forget(self, session: SessionOfJob) -> None:
        """Drop the pending reports and failures of a detached session."""
        self._turns.pop(session, None)
        self._failures.pop(session, None)

    def _end_turn(self) -> None:
        while self._turns:
            turns, self._turns = self._turns, {}
            for session in turns:
                session.end_turn()

    def is_costly(self) -> None:
        """Charge the quantum for a command that is not part of every message's path."""
        self._quantum.left -= METHOD_COST
        self._quantum.hasten()

    def do(self, job: Job, now: float, session: SessionOfJob | None = None, position: int = 0) -> None:
        """Run a job for a session's command before anything more that the client asks for."""
        self._cause = session, position
        super().do(job, now)

    def _answer(self, error: ProtocolError | ProtocolError091, cause: Any, now: float) -> None:
        session, position = cause
        self._fail_session(session, error, position, now)

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

    # --- input

    def _receive(self, frame: Frame, now: float) -> None:
        channel = frame.channel
        if self._stage is not Stage.OPEN and (channel or frame.track):
            if self._stage is not Stage.CLOSING:
                raise FramingError("a session's frame before connection.open-ok", channel=channel)
            return
        if frame.track and channel not in self.channels:
            if frame.ends_assembly:
                self._attachments.refuse(channel)
            return
        reader = self._assemblies.get(channel)
        if reader is None:
            if frame.track and not frame.begins_assembly:
                raise FramingError("the rest of a command where a new one was announced", channel=channel)
            reader = self._assemblies[channel] = AssemblyReader(self.broker.max_message_size)
        assembly = reader.add(frame)
        if not frame.track and channel not in self.channels:
            del self._assemblies[channel]
            if assembly is None:
                raise FramingError("a control in several frames, where no session is attached", channel=channel)
        if assembly is None:
            return
        if frame.track:
            self.channels[channel].receive(assembly, now)
        else:
            self._take_control(assembly, now)

    def _take_control(self, assembly: Assembly, now: float) -> None:
        channel = assembly.channel
        control: Control = assembly.method
        if type(control) is SessionCompleted and (session := self.channels.get(channel)) is not None:
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
        """Answer a faulty frame, or the command that it ends if the session has not taken it."""
        session = self.channels.get(frame.channel)
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
            self._refuse_login(mechanism, reason)
            self._send_close(ConnectionForced("Authentication failed"), now + PENALTY)
            return
        self._expires_at = now + self.user.lifetime
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
        self._heartbeats.heartbeat = tune_ok.heartbeat or 0
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
        self._opened(now, protocol="0-10")

    def _close_for_client(self, close: ConnectionClose, now: float) -> None:
        if self._stage is Stage.CLOSING:  # both peers have sent connection.close
            self.send_method(0, ConnectionCloseOk())
            return
        self._note_client_close(close.reply_code or 0, close.reply_text or "")
        self._stage = Stage.CLOSING
        self.do(self._closed_by_client(now), now)

    # --- requests of its sessions

    def detached(self, session: SessionOfJob, code: DetachCode, now: float) -> None:
        """Detach a session for a reason that is not an exception."""
        self._attachments.detached(session, code, now)

    def end_session(self, session: SessionOfJob, now: float) -> None:
        """End a session whose last control is sent."""
        self._attachments.end(session, now)

    def fail_session_soon(self, session: SessionOfJob, error: ProtocolError) -> None:
        """End a session with an exception at the next tick: the failure occurred in the middle of another operation."""
        self._failures.setdefault(session, error)
        self.broker.timed_connections.set(self, 0.0)

    def log_exception(self, number: int, error: ProtocolError, command: Command | None) -> None:
        """Log the error that ends a session."""
        operation = None if command is None else command.name
        code = int(error.code)
        self.log("warning", "session error", channel=number, code=code, operation=operation, reason=error.reply_text)

    def _answer_failures(self, now: float) -> None:
        failures, self._failures = self._failures, {}
        for session, error in failures.items():
            self._fail_session(session, error, None, now)

    def _send_heartbeat(self) -> None:
        self.send_method(0, ConnectionHeartbeat())

    # --- the end

    def fail(self, now: float) -> None:
        """Close the connection because of a fault in the broker."""
        self._close(ConnectionForced("the broker failed; its log says how"), now)

    def end_channel(self, number: int, error: ProtocolError091, now: float) -> None:
        """End one session for an error that no command is to blame for."""
        session = self.channels.get(number)
        if session is not None:
            session.fail(translated(error), None, None, now)

    def close(self, reason: str, now: float) -> None:
        """Close the connection with reply code 320 and a reason."""
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
        now = yield from self._losing_channels(now, may_come_back=False)
        if not self.is_over:
            self._send_close(error, now + closing_time(self._heartbeats.heartbeat))

    def _send_close(self, error: ProtocolError, ends_at: float) -> None:
        self._stage = Stage.CLOSING
        self.send_method(0, ConnectionClose(error.code, error.reply_text))
        self._await_close_ok(ends_at)

    def _send_close_ok(self) -> None:
        self.send_method(0, ConnectionCloseOk())

    def _losing_channel(self, number: int, now: float, *, may_come_back: bool) -> Generator[None, float, float]:
        session = self.channels.get(number)
        if session is not None:
            now = yield from self._attachments.losing(session, now, may_come_back=may_come_back)
        return now

    def _emptying(self, queue: Queue, now: float) -> Generator[None, float, float]:
        """Send the messages of an exclusive queue to its alternate exchange. Section 10.6."""
        assert self.vhost is not None
        return orphaning(self.vhost, queue, now)


def _scope(error: ProtocolError | ProtocolError091) -> Scope:
    return error.scope if isinstance(error, ProtocolError) else Scope.SESSION


def _of_connection(error: ProtocolError | ProtocolError091) -> ProtocolError:
    """Return the error as one that closes the connection."""
    if isinstance(error, ProtocolError091):
        error = translated(error)
    if error.scope is Scope.CONNECTION:
        return error
    if isinstance(error, InternalError):
        return ConnectionForced(error.text)
    return FramingError(error.text, channel=error.channel, offset=error.offset)
