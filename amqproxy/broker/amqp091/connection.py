"""One client's connection as the broker sees it: bytes in, bytes out, and the channels between.

One class, and so one long file: methods, turns, blocking and closing share one state, which C sees.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ConnectionForced, InternalError, NotAllowed, ProtocolError, Scope
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, METHOD, Frame, encode_method
from amqproxy.amqp091.frame_reader import EVERY_METHOD, MAX_FRAME
from amqproxy.amqp091.methods import (
    METHODS,
    BasicAck,
    BasicCancel,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.rabbitmq_errors import reworded, reworded_reading
from amqproxy.amqp091.transitions import CLIENT, CONNECTION_CLOSING, SERVER, ConnectionState
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.limits import limit
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.amqp091 import argument_checks
from amqproxy.broker.amqp091.channel import BrokerChannel
from amqproxy.broker.amqp091.closing_reader import ClosingReader
from amqproxy.broker.amqp091.handshake import VERSIONS, Handshake, start
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.closing import CLOSING_TIME, PENALTY, SocketClosing, closing_time
from amqproxy.broker.connections.login import Login
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.work import Job, Steps

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if TYPE_CHECKING:
    from amqproxy.broker.amqp091.owners import Confirming
    from amqproxy.broker.queues.queue import Queue
    from amqproxy.broker.storage.journal import Journal
    from amqproxy.broker.vhost import VirtualHost


def _do_nothing() -> None:
    """In place of `wake`, once the connection is over."""


HANDSHAKE_TIME = 10.0
"""Seconds that a client has to open its connection."""

METHOD_COST = 16
"""Operations that a method counts as, unless it belongs to every message."""

REMOVAL_COST = 16
"""Operations that the removal of a queue counts as."""

PUBLISH = BasicPublish.index
_PUBLISH = PUBLISH  # these as C sees them
_METHOD = METHOD
_ACK, _NACK, _REJECT = BasicAck.index, BasicNack.index, BasicReject.index
CHANNEL_OPEN = ChannelOpen.index


class Amqp091Connection:
    """Plays SERVER to one client.

    `feed` takes its bytes; `take_output` returns what is to be sent, and `sent` is called once it is; `waiting` bytes
    are not known to be sent. Once `is_over`, nothing more is taken: `end` is what is to become of the socket when the
    output is sent, and `patience` for how many seconds the client may keep it; `lose` is to be called in any case.
    While it `is_blocked` or `is_behind`, nothing is to be read. `wake` is called whenever any of this has changed.
    `now` is when the client came, in seconds; without it, it may take its time for the handshake.

    What a turn of the loop has no time for, it does in later ones, before anything more that the client asks for.

    `name` is the connection's as RabbitMQ writes it (`127.0.0.1:40000 -> 127.0.0.1:5672`), `certificate_name` what a
    TLS client's certificate calls it, "" where it has shown none.
    """

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
        self.protocol = Connection()
        self.channels: dict[int, BrokerChannel] = {}
        self.vhost: VirtualHost | None = None
        self.output = OutputBuffer(broker.frame_max, wake, broker.waiting)
        self.client_properties = Table()
        self.exclusive_queues: dict[Queue, None] = {}
        self.is_over = False
        self.end: SocketClosing | None = None
        self.patience = 0.0
        self.is_blocked = False
        self.is_paused = False
        """Is nothing read from the client just now, for no fault of its own?"""
        self.takes_cancel = False
        self._user: User | None = None
        self._takes_blocked = False
        self._handshake = Handshake()
        self._login = Login(broker, is_loopback=is_loopback, certificate_name=certificate_name)
        self._is_agreed = False
        self._is_lost = False
        self._closing_line: tuple[str, dict[str, Any]] | None = None
        self._wake = wake
        self._has_failed = False
        self._fault: ProtocolError | None = None
        self._closing_reader: ClosingReader | None = None
        self._behind_fault: list[Frame] = []
        self._unread: list[Frame] = []
        self._place = 0
        self._is_busy = self._is_listed = False
        self._jobs: deque[tuple[Steps, Frame | None]] = deque()
        self._frame: Frame | None = None
        self._quantum = broker.work.quantum
        self._confirming: list[Confirming] = []
        self.is_awaiting = False
        """Does an answer wait until what it confirms is on disk?"""
        self._held_notices: list[tuple[int, str]] | None = None
        self._ends_at: float | None = None
        self._reader = self.protocol.readers[CLIENT]
        self._reader.want(EVERY_METHOD, content=True)
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
    def bytes_arriving(self) -> int:
        """Bytes of bodies of which the rest is to come."""
        return sum([channel.publisher.bytes_arriving for channel in self.channels.values()])

    @property
    def address(self) -> str:
        """The client's address, without its port."""
        return self.name.partition(" ")[0].rpartition(":")[0]

    def is_of(self, user: User) -> bool:
        """Has this user logged in?"""
        return self._user is user

    # --- bytes

    def feed(self, data: bytes, now: float) -> None:
        """Take what the client sent. Whatever is wrong with it is answered; nothing is raised."""
        if self._has_ended():
            return
        self.protocol.note_received(CLIENT, now)
        if self.protocol.state is ConnectionState.NEW:
            data = self._greet(data)
        if not data:
            return
        frames = self._read(data, now)
        if self._unread or self._is_busy:
            self._unread += frames
        else:
            self._take(frames, now)
            if self.is_behind and not self.is_awaiting:
                self._go_on_later()

    def _read(self, data: bytes, now: float) -> list[Frame]:
        """Return the frames to take next. What is behind a refused one waits until that has been answered."""
        closing_reader = self._closing_reader
        reader = self._reader
        if closing_reader is None:
            frames = reader.feed(data)
            if reader.error is None:
                return frames
            self._fault = reworded_reading(reader.error, reader.refused, reader.frame_max)
            self._closing_reader = closing_reader = ClosingReader(reader.frame_max or MAX_FRAME)
            self._behind_fault = closing_reader.feed(reader.refused)
            return frames
        frames = closing_reader.feed(data)
        if self._fault is not None:
            self._behind_fault += frames
            return []
        self._cut_if_lost(now)
        return frames

    def _answer_fault(self, fault: ProtocolError, now: float) -> None:
        """Close for a refused frame; then take what is behind it."""
        behind, self._behind_fault = self._behind_fault, []
        self._fault = None
        self._close(fault, now)
        self._cut_if_lost(now)
        self._unread, self._place = [] if self.is_over else behind, 0

    def _cut_if_lost(self, now: float) -> None:
        """Cut a client that is being closed soon, where its frames can no longer be told apart, as RabbitMQ does."""
        reader = self._closing_reader
        if reader is not None and reader.is_lost and self.protocol.state in CONNECTION_CLOSING and not self.is_over:
            self._end_within(PENALTY, now)

    def _take(self, frames: list[Frame], now: float) -> None:
        """Do what the frames ask for, in their order, as far as this turn goes: the others are `_unread` then.

        A client that is blocked waits at its next publish.
        """
        channels, alarms, quantum = self.channels, self.broker.alarms, self._quantum
        channel: BrokerChannel | None = None
        number = -1
        place: cython.Py_ssize_t = self._place
        count: cython.Py_ssize_t = len(frames)
        frame: Frame
        while place < count:
            if self._is_busy or (quantum.left <= 0 and quantum.is_over()):
                break
            frame = frames[place]
            try:
                if alarms and frame.index == _PUBLISH and self._is_to_wait():
                    break
                place += 1
                quantum.left -= 1
                self._frame = frame
                if frame.channel != number:
                    number = frame.channel
                    channel = channels.get(number)
                if channel is None or not frame.is_in_order:
                    self._receive(frame, now)
                elif frame.kind != _METHOD or frame.index == _PUBLISH:
                    channel.publisher.receive(frame, now)
                    continue
                elif frame.index == _ACK or frame.index == _NACK or frame.index == _REJECT:
                    channel.deliveries.settle(frame, now)
                    continue
                else:
                    self._receive(frame, now)
            except ProtocolError as error:
                if error.offset is None:
                    self._refuse(frame, error, now)
                else:  # the frame's own bytes are at fault
                    self._refuse_as(frame, reworded(error, frame, self.protocol.state), now)
            number = -1  # what it asked for may have opened or closed the channel
            if self.is_over:
                self._unread, self._place = [], 0
                return
        if place < count:
            self._unread, self._place = frames, place
        else:
            self._unread, self._place = [], 0
        if self._confirming:
            confirming, self._confirming = self._confirming, []
            for publisher in confirming:
                publisher.confirm()
        if self._fault is not None and not self._unread and not self._is_busy:
            self._answer_fault(self._fault, now)

    # --- what a turn leaves to later ones

    @property
    def is_behind(self) -> bool:
        """Is there something to be done before more is read?"""
        return self._is_busy or (self._place < len(self._unread) and not self.is_blocked)

    def do(self, job: Job, now: float) -> None:
        """Do a job before anything more that the client asks for: now, as far as this turn goes, and then later.

        A `ProtocolError` that ends it is answered as one of the frame that asked for it.
        """
        self._quantum.hasten()
        steps = Steps(job)
        if not self._is_busy and not steps.go_on(now):
            return
        self._jobs.append((steps, self._frame))
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
        if self.is_behind and not self.is_awaiting:
            return True
        self._is_listed = False
        if not self.is_over:
            self._wake()
        return False

    def _do_jobs(self, now: float) -> None:
        while self._jobs:
            steps, self._frame = self._jobs[0]
            try:
                if steps.go_on(now):
                    return
            except ProtocolError as error:
                assert self._frame is not None
                self._refuse(self._frame, error, now)
            except Exception:
                self._jobs.popleft()
                self._is_listed = False
                self.fail(now)
                raise
            self._jobs.popleft()
        self._is_busy = self.is_awaiting

    def step_aside(self) -> None:
        """The client speaks another protocol, and another connection serves it: forget this one."""
        self.is_over = self._is_lost = True
        self.broker.timed_connections.drop(self)
        self.broker.connections.pop(self, None)
        self.output.close()
        self._wake = _do_nothing

    def _has_ended(self) -> bool:
        return self.is_over

    def _greet(self, data: bytes) -> bytes:
        """Answer the protocol header; what is behind it."""
        handshake = self._handshake
        if not handshake.has_begun:
            self.log("info", "connection accepted")
        spoken = handshake.protocol(data)
        if spoken is None:
            return b""
        if spoken not in VERSIONS:
            self.write(HEADER)
            self._closing_line = "warning", {"by": "broker", "reason": f"the client speaks another protocol: {spoken}"}
            self._end(SocketClosing.AGREED)
            return b""
        self.protocol.receive_header(CLIENT, HEADER)
        self.send_method(0, start(spoken, self.broker.properties, self._login.mechanisms))
        return handshake.behind_header

    def write(self, data: bytes) -> None:
        """Send bytes, in their turn."""
        self.output.put(data)

    def send_method(self, channel: int, method: Method) -> None:
        """Send a method."""
        if method.class_id != 60:
            self.write(self.protocol.send(SERVER, channel, method))
        else:
            self.write(encode_method(channel, method))

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
        self.protocol.note_received(SERVER, now)
        if self.output.sent():
            for channel in list(self.channels.values()):
                channel.deliveries.pump(now)

    def notify_cancelled(self, channel: int, consumer_tag: str) -> None:
        """Send the client basic.cancel because a consumer's queue is gone, if it supports that."""
        if not self.takes_cancel:
            return
        if self._held_notices is None:
            self.send_method(channel, BasicCancel(consumer_tag, True))
        else:
            self._held_notices.append((channel, consumer_tag))

    def answer_when_kept(self, journal: Journal, channel: int, answer: Method) -> None:
        """Send an answer, and do what the client asks for after it, once the disk has all that was done so far."""
        self.is_awaiting = self._is_busy = True
        journal.when_committed(partial(self._answer_kept, channel, answer), self._answer_failed)

    def _answer_failed(self) -> None:
        """The answer cannot be given: the client is not to wait for it."""
        self._await_no_more()
        self.fail_soon()
        self._wake()

    def _await_no_more(self) -> None:
        self.is_awaiting = False
        self._is_busy = bool(self._jobs)

    def _answer_kept(self, channel: int, answer: Method) -> None:
        self._await_no_more()
        if channel in self.channels and not self.is_over:
            self.send_method(channel, answer)
        self._release_notices()
        if self.is_behind:
            self._go_on_later()
        self._wake()

    def _release_notices(self) -> None:
        notices, self._held_notices = self._held_notices or [], None
        for channel, consumer_tag in notices:
            if channel in self.channels:
                self.send_method(channel, BasicCancel(consumer_tag, True))

    @contextmanager
    def notices_held(self) -> Iterator[None]:
        """Whatever consumers end meanwhile, let the client know afterwards, and after the answer."""
        self._held_notices = []
        try:
            yield
        finally:
            if not self.is_awaiting:
                self._release_notices()

    def to_confirm(self, publisher: Confirming) -> None:
        """Confirm these once all that came with them is done."""
        self._confirming.append(publisher)

    def _is_to_wait(self) -> bool:
        """The broker is short of something, and a publish has come: it waits, and so does all that comes after it."""
        if self.protocol.state is not ConnectionState.OPEN:
            return False
        self.is_blocked = True
        if self._takes_blocked:
            self.send_method(0, ConnectionBlocked("low on " + " & ".join(sorted(self.broker.alarms, reverse=True))))
        return True

    def alarms_changed(self, now: float) -> None:
        """Let the client go on, if nothing is short any more."""
        if not self.is_blocked or self.broker.alarms:
            return
        self.is_blocked = False
        if self._takes_blocked and self.protocol.state is ConnectionState.OPEN:
            self.send_method(0, ConnectionUnblocked())
        if not self._is_busy:
            self._take(self._unread, now)
        if self.is_behind:
            self._go_on_later()
        self._wake()

    # --- methods

    def _receive(self, frame: Frame, now: float) -> None:
        self._quantum.left -= METHOD_COST
        self._quantum.hasten()
        if frame.index == CHANNEL_OPEN and self._is_full(frame.channel, now):
            return
        try:
            if frame.kind == METHOD and self.protocol.state not in CONNECTION_CLOSING:
                argument_checks.check(frame)
            if not self.protocol.receive(CLIENT, frame):
                return
        except ProtocolError as error:
            self._refuse_as(frame, reworded(error, frame, self.protocol.state), now)
            return
        if frame.channel and (frame.kind != METHOD or frame.index == _PUBLISH):
            self.channels[frame.channel].publisher.receive(frame, now)  # which came together with its channel.open
            return
        if frame.kind != METHOD:
            return
        method: Method = frame.method
        if frame.channel == 0:
            self._handle(method, now)
            return
        match method:
            case ChannelOpen():
                assert self.vhost is not None
                self.channels[frame.channel] = channel = BrokerChannel(frame.channel, self, self.vhost)
                self.user.channels += 1
                self.send_method(frame.channel, ChannelOpenOk())
                self._report("channel.created", channel)
            case ChannelClose():
                self.do(self._closing_channel(frame.channel, ChannelCloseOk(), now), now)
            case ChannelCloseOk():
                pass
            case BasicAck() | BasicNack() | BasicReject():
                self.channels[frame.channel].deliveries.settle(frame, now)
            case _:
                self.channels[frame.channel].handle(method, now)

    def _is_full(self, number: int, now: float) -> bool:
        """Is there no room for a further channel? Then the connection is closed, with no method at fault."""
        protocol = self.protocol
        if number == 0 or number in protocol.channels or protocol.state is not ConnectionState.OPEN:
            return False
        count = len(protocol.channels)
        if protocol.channel_max and count >= protocol.channel_max:
            most = protocol.channel_max
            text = f"number of channels opened ({count}) has reached the negotiated channel_max ({most})"
        else:
            user = self.user
            allowed = limit(user.limits, "max-channels")
            if allowed is None:
                return False
            if user.channels < allowed:
                return False
            text = f"number of channels opened for user '{user.name}' has reached the maximum allowed user limit of"
            text += f" ({allowed})"
        self._close(NotAllowed(text), now)
        return True

    def _handle(self, method: Method, now: float) -> None:
        match method:
            case ConnectionStartOk():
                self._log_in(method, now)
            case ConnectionTuneOk():
                self._is_agreed = True
                self.output.frame_max = self.protocol.frame_max or self.broker.frame_max
            case ConnectionOpen():
                self._enter(method.virtual_host, now)
            case ConnectionUpdateSecret():
                self.send_method(0, ConnectionUpdateSecretOk())
            case ConnectionClose():
                self._close_for_client(method, now)
            case ConnectionCloseOk():
                self._end(SocketClosing.AGREED)
            case _:
                raise AssertionError(method)

    def _close_for_client(self, method: ConnectionClose, now: float) -> None:
        """Close as the client wants it, and let it close the socket; a stranger is not answered."""
        if self.protocol.state is ConnectionState.CLOSED_BY_BOTH:
            self.send_method(0, ConnectionCloseOk())  # its close-ok to our close is still to come
            return
        if not self._is_agreed:
            self._refuse_stranger("connection.close before connection.tune-ok")
            return
        # Some clients close with no code at all, as py-amqp does.
        level = "info" if method.reply_code in (0, 200) else "warning"
        fields = {"by": "client", "code": method.reply_code or None, "reason": method.reply_text or None}
        self._closing_line = level, fields
        self.do(self._closed_by_client(now), now)

    def _log_in(self, method: ConnectionStartOk, now: float) -> None:
        self.client_properties = method.client_properties
        capabilities = method.client_properties.get("capabilities")
        able: Table = capabilities if isinstance(capabilities, Table) else Table()
        mechanism = method.mechanism
        try:
            self._user = self._login.log_in(mechanism, method.response)
        except LoginRefused as error:
            user = self._login.user_name or None
            self.log("warning", "login refused", mechanism=mechanism, user=user, reason=str(error))
            self._refuse_login(mechanism, now, sends_reason=bool(able.get("authentication_failure_close")))
            return
        self.takes_cancel = bool(able.get("consumer_cancel_notify"))
        self._takes_blocked = bool(able.get("connection.blocked"))
        broker = self.broker
        self.send_method(0, ConnectionTune(broker.channel_max, broker.frame_max, broker.heartbeat))

    def _refuse_login(self, mechanism: str, now: float, *, sends_reason: bool) -> None:
        """Cut the client after a while, whether it is sent a reason or not."""
        self._closing_line = "debug", {"by": "broker", "reason": "login refused"}
        self.broker.refused.add(self, self.address)
        if sends_reason:
            text = f"Login was refused using authentication mechanism {mechanism}. "
            text += "For details see the broker logfile."
            self._send_close(403, f"ACCESS_REFUSED - {text}", 0, 0, now + PENALTY)
        else:
            self._end(SocketClosing.REFUSED, PENALTY)

    def _refuse_stranger(self, reason: str) -> None:
        """Cut a client that did something wrong before it had agreed to anything: after a while, without a word."""
        self.log("warning", "handshake failed", reason=reason)
        self._closing_line = "debug", {"by": "broker", "reason": "handshake failed"}
        self._end(SocketClosing.REFUSED, PENALTY)

    def _enter(self, name: str, now: float) -> None:
        self.vhost = self._login.enter(name, self.user)
        self.send_method(0, ConnectionOpenOk())
        self._ends_at = None
        self._set_timer(now)
        heartbeat = self.protocol.heartbeat or None
        self.log("info", "connection open", product=_text(self.client_properties, "product"), heartbeat=heartbeat)
        self._report("connection.created", self)

    def _report(self, name: str, subject: object) -> None:
        events = self.broker.events
        if events.observers and self.vhost is not None:
            events.report(name, self.vhost.name, subject, connection=self)

    # --- time

    def tick(self, now: float) -> None:
        """Do what is due: hang up on a client that takes too long or has fallen silent, or send a heartbeat."""
        if self.is_over:
            return
        if self._has_failed:
            self._has_failed = False
            self._close(InternalError(""), now)
            return
        protocol = self.protocol
        is_read = not self.is_blocked and not self.is_behind and not self.is_paused
        if protocol.state is ConnectionState.OPEN and is_read and protocol.is_silent(CLIENT, now):
            self.cut(f"missed heartbeats from client, timeout: {protocol.heartbeat}s")
            return
        if self._ends_at is not None and self._ends_at <= now:
            self.cut("" if protocol.state in CONNECTION_CLOSING else "handshake timeout")
            return
        if protocol.state is ConnectionState.OPEN and protocol.is_heartbeat_due(SERVER, now):
            self.write(HEARTBEAT_FRAME)
            protocol.note_received(SERVER, now)
        self._set_timer(now)

    def _end_within(self, time: float, now: float) -> None:
        """Cut the client after `time` seconds, unless it is to be cut earlier."""
        if self._ends_at is None or self._ends_at > now + time:
            self._end_by(now + time)

    def _end_by(self, when: float) -> None:
        self._ends_at = when
        self.broker.timed_connections.set(self, when)

    def _set_timer(self, now: float) -> None:
        """Heartbeats are checked four times in each interval."""
        interval = self.protocol.heartbeat
        if self._ends_at is not None:
            self.broker.timed_connections.set(self, self._ends_at)
        elif interval:
            self.broker.timed_connections.set(self, now + interval / 4)
        else:
            self.broker.timed_connections.drop(self)

    # --- the end

    def fail(self, now: float) -> None:
        """Close the connection with 541: the broker is at fault."""
        self._close(InternalError("the broker failed; its log says how"), now)

    def give_up(self, now: float) -> None:
        """The same, also where not even that can be done any more: then only the socket is closed."""
        try:
            self.fail(now)
        except Exception as error:  # noqa: BLE001
            self.broker.events.fail("connection failed", error, client=self.name)
            self.cut()

    def fail_soon(self) -> None:
        """Close the connection with 541 at the next tick: what has failed did so in the middle of something else."""
        self._has_failed = True
        self.broker.timed_connections.set(self, 0.0)

    def end_channel(self, number: int, error: ProtocolError, now: float) -> None:
        """Close one channel, with no method at fault."""
        self._log_channel_error(number, error)
        self.do(self._closing_channel(number, ChannelClose(error.code, error.reply_text, 0, 0), now), now)

    def close(self, reason: str, now: float) -> None:
        """Close the connection with 320 and a reason."""
        self._close(ConnectionForced(reason), now)

    def _refuse(self, frame: Frame, error: ProtocolError, now: float) -> None:
        """Close the channel or the connection, whichever the error's scope is."""
        if not isinstance(error, InternalError):
            at_fault = frame.method if frame.kind == METHOD else BasicPublish
            error.class_id, error.method_id = at_fault.class_id, at_fault.method_id
        self._refuse_as(frame, error, now)

    def _refuse_as(self, frame: Frame, error: ProtocolError, now: float) -> None:
        if error.scope is Scope.CHANNEL and frame.channel in self.channels:
            self._log_channel_error(frame.channel, error)
            close = ChannelClose(error.code, error.reply_text, error.class_id, error.method_id)
            self.do(self._closing_channel(frame.channel, close, now), now)
        else:
            self._close(error, now)

    def _closing_channel(self, number: int, last: Method, now: float) -> Job:
        """Remove a channel, and send its last method."""
        yield from self._losing_channel(number, now)
        self.send_method(number, last)

    def _losing_channel(self, number: int, now: float) -> Generator[None, float, float]:
        channel = self.channels.pop(number, None)
        if channel is not None:
            self.user.channels -= 1
            if channel.publisher in self._confirming:
                self._confirming.remove(channel.publisher)
                channel.publisher.confirm()
            now = yield from channel.closing(now)
            self._report("channel.closed", channel)
        return now

    def _close(self, error: ProtocolError, now: float) -> None:
        state = self.protocol.state
        if state in (ConnectionState.AGREED, ConnectionState.OPENING, ConnectionState.OPEN):
            level = "info" if isinstance(error, ConnectionForced) else "warning"
            self.log(level, "connection error", code=error.code, operation=_operation(error), reason=error.reply_text)
            self._closing_line = "info", {"by": "broker", "code": error.code}
            self.do(self._closing(error, now), now)
        elif state not in CONNECTION_CLOSING:
            self._refuse_stranger(error.reply_text)

    def _closing(self, error: ProtocolError, now: float) -> Job:
        now = yield from self._losing_channels(now)
        if self.protocol.state not in CONNECTION_CLOSING:
            ends_at = now + closing_time(self.protocol.heartbeat)
            self._send_close(error.code, error.reply_text, error.class_id, error.method_id, ends_at)
            self._cut_if_lost(now)

    def _send_close(self, code: int, text: str, class_id: int, method_id: int, ends_at: float) -> None:
        self.send_method(0, ConnectionClose(code, text, class_id, method_id))
        self.is_blocked = False
        self._end_by(ends_at)
        if self._unread:  # which may hold the client's own close
            self._go_on_later()

    def _closed_by_client(self, now: float) -> Job:
        yield from self._losing_channels(now)
        self.send_method(0, ConnectionCloseOk())
        self._end(SocketClosing.CLOSED, closing_time(self.protocol.heartbeat))

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

    # --- the log

    def log(self, level: str, event: str, **fields: Any) -> None:
        """Write a line that is about this client. One within this process is its owner's, who logs it too."""
        if not self.name and level == "info":
            level = "debug"
        known = {
            "client": self.name or None,
            "name": _text(self.client_properties, "connection_name"),
            "user": self._user.name if self._user is not None else None,
            "vhost": self.vhost.name if self.vhost is not None else None,
        }
        self.broker.events.log(level, event, self.address, **{**known, **fields})

    def _log_channel_error(self, number: int, error: ProtocolError) -> None:
        operation, reason = _operation(error), error.reply_text
        self.log("warning", "channel error", channel=number, code=error.code, operation=operation, reason=reason)

    def _log_end(self, *, is_gone: bool) -> None:
        level, fields = self._closing_line or ("info", {})
        if self._closing_line is None and is_gone:
            has_spoken = self.protocol.state is not ConnectionState.NEW or self._handshake.has_begun
            level = "warning" if has_spoken else "debug"
            reason = "client unexpectedly closed TCP connection" if has_spoken else "client sent nothing"
            fields = {"by": "client", "reason": reason}
        self.log(level, "connection closed", **fields)

    def lose(self, now: float, *, is_gone: bool = True) -> None:
        """The client is gone, or as good as: its channels end, and its exclusive queues.

        `is_gone` is true when the client has closed the socket.
        """
        if not self._is_lost:
            self._is_lost = True
            self._log_end(is_gone=is_gone)
        self.is_over = True
        self._unread, self._place = [], 0
        self.broker.timed_connections.drop(self)
        self.do(self._losing(now), now)

    def _losing(self, now: float) -> Job:
        yield from self._losing_channels(now)
        if self.broker.connections.pop(self, self) is None:
            self._report("connection.closed", self)
        self._unread = []
        self.output.close()
        self._wake = _do_nothing  # the task that is woken refers to this connection: no circle is to remain

    def _losing_channels(self, now: float) -> Generator[None, float, float]:
        self.output.has_room = False  # what one channel gives back is not for another
        contained = self.broker.events.contained
        for number in list(self.channels):
            with contained("a channel's end failed", client=self.name, channel=number):
                now = yield from self._losing_channel(number, now)
        queues = list(reversed(self.exclusive_queues))
        self.exclusive_queues = {}
        quantum = self._quantum
        while queues:
            queue = queues.pop()  # and not all of them at the end: to free one takes its time
            assert self.vhost is not None
            with contained("an exclusive queue's end failed", client=self.name, queue=queue.name):
                self.vhost.remove_queue(queue)
            if quantum.spend(REMOVAL_COST):
                now = yield
        return now


def _operation(error: ProtocolError) -> str | None:
    """The method at fault, if one is."""
    method = METHODS.get(error.class_id << 16 | error.method_id)
    return None if method is None else method.name


def _text(properties: Table, name: str) -> str | None:
    """A client's property, where it is a text."""
    value = properties.get(name)
    return value if isinstance(value, str) else None
