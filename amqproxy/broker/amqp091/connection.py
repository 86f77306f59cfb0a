"""The connection of an AMQP 0-9-1 client: its handshake, its channels, and how each is closed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Unpack

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
from amqproxy.broker.access.users import LoginRefused
from amqproxy.broker.amqp091 import argument_checks
from amqproxy.broker.amqp091.channel import BrokerChannel
from amqproxy.broker.amqp091.closing_reader import ClosingReader
from amqproxy.broker.amqp091.handshake import Handshake, start
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.client_connection import METHOD_COST, ClientConnection, ClientFacts
from amqproxy.broker.connections.closing import PENALTY, SocketClosing, closing_time
from amqproxy.broker.work import Job

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if TYPE_CHECKING:
    from amqproxy.broker.amqp091.owners import Confirming
    from amqproxy.broker.queues.queue import Queue
    from amqproxy.broker.storage.journal import Journal

    Frames = list[Frame]  # unknown to Cython, which takes the type of the .pxd


PUBLISH = BasicPublish.index
_PUBLISH = PUBLISH  # these as C sees them
_METHOD = METHOD
_ACK, _NACK, _REJECT = BasicAck.index, BasicNack.index, BasicReject.index
CHANNEL_OPEN = ChannelOpen.index


class Amqp091Connection(ClientConnection):
    """Server side of one client's 0-9-1 connection, with RabbitMQ's behaviour."""

    faults = (ProtocolError,)

    def __init__(self, broker: Broker, **client: Unpack[ClientFacts]) -> None:
        self.protocol = Connection(initial_frame_max=broker.profile.start_ok_max)
        super().__init__(broker, self.protocol, broker.frame_max, **client)
        self.client_properties = Table()
        self.takes_cancel = False
        self._takes_blocked = False
        self._handshake = Handshake()
        self._is_agreed = False
        self._has_failed = False
        self._closing_reader: ClosingReader | None = None
        self._behind_fault: list[Frame] = []
        self._confirming: list[Confirming] = []
        self._held_notices: list[tuple[int, str]] | None = None
        self._reader = self.protocol.readers[CLIENT]
        self._reader.want(EVERY_METHOD, content=True)
        self._reader.zero_copy = True

    @property
    def bytes_arriving(self) -> int:
        """Bytes received of bodies that are incomplete."""
        return sum([channel.publisher.bytes_arriving for channel in self.channels.values()])

    @property
    def _is_open(self) -> bool:
        return self.protocol.state is ConnectionState.OPEN

    @property
    def _is_closing(self) -> bool:
        return self.protocol.state in CONNECTION_CLOSING

    @property
    def _has_spoken(self) -> bool:
        return self.protocol.state is not ConnectionState.NEW or self._handshake.has_begun

    # --- bytes

    def _read(self, data: bytes, now: float) -> list[Frame]:
        """Return the next frames to process; frames after a refused one wait until connection.close is sent."""
        if self.protocol.state is ConnectionState.NEW:
            data = self._greet(data)
        if not data:
            return []
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
        """Close the connection for a refused frame; then process the frames that followed it."""
        behind, self._behind_fault = self._behind_fault, []
        self._close(fault, now)
        self._cut_if_lost(now)
        self._unread, self._place = [] if self.is_over else behind, 0

    def _cut_if_lost(self, now: float) -> None:
        """Cut a closing client after `PENALTY` if its frame boundaries are lost, as RabbitMQ does."""
        reader = self._closing_reader
        if reader is not None and reader.is_lost and self.protocol.state in CONNECTION_CLOSING and not self.is_over:
            self._end_within(PENALTY, now)

    def _take(self, frames: Frames, now: float) -> None:
        """Process frames in order until the turn's quantum is spent; the rest becomes `_unread`.

        A blocked client waits at its next publish.
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
                self._cause = frame
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
                else:  # the error is in the frame's own bytes
                    self._refuse_as(frame, reworded(error, frame, self.protocol.state), now)
            number = -1  # the frame may have opened or closed the channel
            if self.is_over:
                break
        self._leave(frames, place, now)

    def _end_turn(self) -> None:
        if self._confirming:
            confirming, self._confirming = self._confirming, []
            for publisher in confirming:
                publisher.confirm()

    def _answer(self, error: ProtocolError, cause: Frame, now: float) -> None:
        self._refuse(cause, error, now)

    def _greet(self, data: bytes) -> bytes:
        """Answer the protocol header and return the bytes that follow it."""
        handshake = self._handshake
        if not handshake.has_begun:
            self.log("info", "connection accepted")
        spoken = handshake.protocol(data)
        if spoken is None:
            return b""
        profile = self.broker.profile
        if spoken not in profile.protocols:
            self.write(profile.foreign_answer if handshake.header[:7] != HEADER[:7] else HEADER)
            self._closing_line = "warning", {"by": "broker", "reason": f"the client speaks another protocol: {spoken}"}
            self._end(SocketClosing.AGREED)
            return b""
        self.protocol.receive_header(CLIENT, HEADER)
        self.send_method(0, start(spoken, self.broker.properties, self._login.mechanisms))
        return handshake.behind_header

    def write(self, data: bytes) -> None:
        """Append bytes to the output."""
        self.output.put(data)

    def send_method(self, channel: int, method: Method) -> None:
        """Send a method; all except those of the class basic also change the protocol state."""
        if method.class_id != 60:
            self.write(self.protocol.send(SERVER, channel, method))
        else:
            self.write(encode_method(channel, method))

    def notify_cancelled(self, channel: int, consumer_tag: str) -> None:
        """Send basic.cancel for a consumer whose queue is gone, if the client supports that."""
        if not self.takes_cancel:
            return
        if self._held_notices is None:
            self.send_method(channel, BasicCancel(consumer_tag, True))
        else:
            self._held_notices.append((channel, consumer_tag))

    def answer_when_kept(self, journal: Journal, channel: int, answer: Method) -> None:
        """Send a reply once everything done so far is on disk; the client's later frames wait until then."""
        self.is_awaiting = self._is_busy = True
        journal.when_committed(partial(self._answer_kept, channel, answer), self._answer_failed)

    def _answer_failed(self) -> None:
        """Close the connection because the journal has failed: the reply that the client awaits cannot be sent."""
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
        """Hold back basic.cancel notices within this context, until the reply is sent."""
        self._held_notices = []
        try:
            yield
        finally:
            if not self.is_awaiting:
                self._release_notices()

    def to_confirm(self, publisher: Confirming) -> None:
        """Confirm this publisher's messages at the end of the turn."""
        self._confirming.append(publisher)

    def _is_to_wait(self) -> bool:
        """Whether an alarm holds back a publish and all later frames; if so, block the client and notify it."""
        if self.protocol.state is not ConnectionState.OPEN:
            return False
        self.is_blocked = True
        if self._takes_blocked:
            self.send_method(0, ConnectionBlocked("low on " + " & ".join(sorted(self.broker.alarms, reverse=True))))
        return True

    def _has_unblocked(self) -> None:
        if self._takes_blocked and self.protocol.state is ConnectionState.OPEN:
            self.send_method(0, ConnectionUnblocked())

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
            self.channels[frame.channel].publisher.receive(frame, now)  # received in one read with its channel.open
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
                self.broker.events.churn.channel_created += 1
                self.send_method(frame.channel, ChannelOpenOk())
                self.report("channel.created", channel)
            case ChannelClose():
                self.do(self._closing_channel(frame.channel, ChannelCloseOk(), now), now)
            case ChannelCloseOk():
                pass
            case BasicAck() | BasicNack() | BasicReject():
                self.channels[frame.channel].deliveries.settle(frame, now)
            case _:
                self.channels[frame.channel].handle(method, now)

    def _is_full(self, number: int, now: float) -> bool:
        """Whether channel.open exceeds the channel limits; if so, close the connection without naming a method."""
        protocol = self.protocol
        if number == 0 or number in protocol.channels or protocol.state is not ConnectionState.OPEN:
            return False
        count = len(protocol.channels)
        if protocol.channel_max and count >= protocol.channel_max:
            most = protocol.channel_max
            text = f"number of channels opened ({count}) has reached the negotiated channel_max ({most})"
        else:
            user = self.user
            allowed = limit(self.broker.limits_of(user), "max-channels")
            if allowed is None:
                return False
            if self.broker.channels_of(user) < allowed:
                return False
            text = f"number of channels opened for user '{user.name}' has reached the maximum allowed user limit of"
            text += " " + self.broker.profile.user_limit_text.format(limit=allowed)
        self._close(NotAllowed(text), now)
        return True

    def _handle(self, method: Method, now: float) -> None:
        match method:
            case ConnectionStartOk():
                self._log_in(method, now)
            case ConnectionTuneOk():
                if self._is_below_floor(method.frame_max):
                    return
                self._is_agreed = True
                self.output.frame_max = self.protocol.frame_max or self.broker.frame_max
            case ConnectionOpen():
                self._enter(method.virtual_host, now)
            case ConnectionUpdateSecret():
                self._login.renewed(self.user, method.new_secret.decode(errors="replace"))
                self._expires_at = now + self.user.lifetime
                self._set_timer(now)
                self.send_method(0, ConnectionUpdateSecretOk())
            case ConnectionClose():
                self._close_for_client(method, now)
            case ConnectionCloseOk():
                self._end(SocketClosing.AGREED)
            case _:
                raise AssertionError(method)

    def _is_below_floor(self, frame_max: int) -> bool:
        """Whether the client's frame_max is below that of the RabbitMQ version; if so, cut the client."""
        floor = self.broker.profile.frame_max_floor
        if not 0 < frame_max < floor:
            return False
        self._refuse_stranger(f"negotiated frame_max = {frame_max} is lower than the minimum allowed value ({floor})")
        return True

    def _close_for_client(self, method: ConnectionClose, now: float) -> None:
        """Close at the client's request and let it close the socket; before connection.tune-ok, send no reply."""
        if self.protocol.state is ConnectionState.CLOSED_BY_BOTH:
            self.send_method(0, ConnectionCloseOk())  # the client's close-ok for our close is still outstanding
            return
        if not self._is_agreed:
            self._refuse_stranger("connection.close before connection.tune-ok")
            return
        self._note_client_close(method.reply_code, method.reply_text)
        self.do(self._closed_by_client(now), now)

    def _log_in(self, method: ConnectionStartOk, now: float) -> None:
        self.client_properties = method.client_properties
        capabilities = method.client_properties.get("capabilities")
        able: Table = capabilities if isinstance(capabilities, Table) else Table()
        mechanism = method.mechanism
        try:
            self._user = self._login.log_in(mechanism, method.response)
        except LoginRefused as error:
            self._refuse_login(mechanism, str(error))
            # Either way the client is cut after `PENALTY`.
            if able.get("authentication_failure_close"):
                text = f"Login was refused using authentication mechanism {mechanism}. "
                text += "For details see the broker logfile."
                self._send_close(403, f"ACCESS_REFUSED - {text}", 0, 0, now + PENALTY)
            else:
                self._end(SocketClosing.REFUSED, PENALTY)
            return
        self._expires_at = now + self._user.lifetime
        self.takes_cancel = bool(able.get("consumer_cancel_notify"))
        self._takes_blocked = bool(able.get("connection.blocked"))
        broker = self.broker
        self.send_method(0, ConnectionTune(broker.channel_max, broker.frame_max, broker.heartbeat))

    def _refuse_stranger(self, reason: str) -> None:
        """Cut a client that made an error before connection.tune-ok: after `PENALTY`, without sending a method."""
        self.log("warning", "handshake failed", reason=reason)
        self._closing_line = "debug", {"by": "broker", "reason": "handshake failed"}
        self._end(SocketClosing.REFUSED, PENALTY)

    def _enter(self, name: str, now: float) -> None:
        self.vhost = self._login.enter(name, self.user)
        self.send_method(0, ConnectionOpenOk())
        self._opened(now)

    def _send_heartbeat(self) -> None:
        self.write(HEARTBEAT_FRAME)

    # --- the end

    def fail(self, now: float) -> None:
        """Close the connection with 541 for an error of the broker."""
        self._close(InternalError("the broker failed; its log says how"), now)

    def _answer_failures(self, now: float) -> None:
        if self._has_failed:
            self._has_failed = False
            self._close(InternalError(""), now)

    def fail_soon(self) -> None:
        """Close the connection with 541 at the next tick, for a failure in the middle of another operation."""
        self._has_failed = True
        self.broker.timed_connections.set(self, 0.0)

    def end_channel(self, number: int, error: ProtocolError, now: float) -> None:
        """Close one channel without naming a method."""
        self.do(self._ending_channel(number, error, now), now)

    def _ending_channel(self, number: int, error: ProtocolError, now: float) -> Job:
        if number in self.channels:  # jobs before this one may have closed it
            self._log_channel_error(number, error)
            yield from self._closing_channel(number, ChannelClose(error.code, error.reply_text, 0, 0), now)

    def close(self, reason: str, now: float) -> None:
        """Close the connection with 320 and a reason."""
        self._close(ConnectionForced(reason), now)

    def _refuse(self, frame: Frame, error: ProtocolError, now: float) -> None:
        """Close the channel or the connection, depending on the error's scope."""
        if not isinstance(error, InternalError) or error.text:
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
        """Remove a channel and send its last method: channel.close or channel.close-ok."""
        yield from self._losing_channel(number, now)
        self.send_method(number, last)

    def _losing_channel(self, number: int, now: float, *, may_come_back: bool = False) -> Generator[None, float, float]:
        channel = self.channels.pop(number, None)
        if channel is not None:
            self.user.channels -= 1
            self.broker.events.churn.channel_closed += 1
            if channel.publisher in self._confirming:
                self._confirming.remove(channel.publisher)
                channel.publisher.confirm()
            now = yield from channel.closing(now)
            self.report("channel.closed", channel)
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
        self._await_close_ok(ends_at)

    def _send_close_ok(self) -> None:
        self.send_method(0, ConnectionCloseOk())

    def _emptying(self, queue: Queue, now: float) -> Generator[None, float, float]:
        """Return at once: the messages of a deleted queue are discarded, as in RabbitMQ."""
        yield from ()
        return now

    def _log_channel_error(self, number: int, error: ProtocolError) -> None:
        operation, reason = _operation(error), error.reply_text
        self.log("warning", "channel error", channel=number, code=error.code, operation=operation, reason=reason)


def _operation(error: ProtocolError) -> str | None:
    """Return the name of the method at fault; `None` if the error names none."""
    method = METHODS.get(error.class_id << 16 | error.method_id)
    return None if method is None else method.name
