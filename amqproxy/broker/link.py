"""One client's connection as the broker sees it: octets in, octets out, and the channels between."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import AccessRefused, NotAllowed, ProtocolError, Scope
from amqproxy.amqp091.frames import EVERY_METHOD, METHOD, Frame, encode_method
from amqproxy.amqp091.grammar import CLIENT, SERVER, State
from amqproxy.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER, NAME, recognise
from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker, User
from amqproxy.broker.server_channel import ServerChannel
from amqproxy.broker.vhost import VirtualHost

HIGH_WATER = 4 * 1024 * 1024
"""Octets waiting to be sent, above which nothing more is delivered to the client."""

PUBLISH = BasicPublish.index


class Link:
    """Plays SERVER to one client.

    `feed` takes its octets; `take_output` gives what is to be sent. Once `is_over`, the socket is to be closed when the
    output is sent. `wake` is called whenever there is something to send.
    """

    def __init__(self, broker: Broker, *, is_loopback: bool, wake: Callable[[], None]) -> None:
        self.broker = broker
        self.token = secrets.token_urlsafe(12)
        self.connection = Connection(tracks_deliveries=False, initial_frame_max=131_072)
        self.channels: dict[int, ServerChannel] = {}
        self.user: User | None = None
        self.vhost: VirtualHost | None = None
        self.frame_max = broker.frame_max
        self.is_over = False
        self.has_room = True
        self.takes_cancel = False
        self._is_loopback = is_loopback
        self._wake = wake
        self._is_deaf = False
        self._greeting = b""
        self._output: list[bytes] = []
        self._waiting = 0
        self._confirming: dict[ServerChannel, None] = {}
        self.connection.readers[CLIENT].want(EVERY_METHOD, content=True)

    # --- octets

    def feed(self, data: bytes, now: float) -> None:
        """Take what the client sent. Whatever is wrong with it is answered; nothing is raised."""
        if self._has_ended():
            return
        if self.connection.state is State.NEW:
            data = self._greet(data)
        if not data:
            return
        if self._is_deaf:
            return
        reader = self.connection.readers[CLIENT]
        channels = self.channels
        for frame in reader.feed(data):
            try:
                channel = channels.get(frame.channel)
                if channel is not None and frame.is_in_order and (frame.kind != METHOD or frame.index == PUBLISH):
                    channel.receive_content(frame, now)
                else:
                    self._receive(frame, now)
            except ProtocolError as error:
                self._refuse(frame, error, now)
            if self.is_over:
                return
        if self._confirming:
            for channel in self._confirming:
                channel.confirm()
            self._confirming = {}
        if reader.error is not None:
            self._is_deaf = True
            self._close(reader.error, now)

    def _greet(self, data: bytes) -> bytes:
        self._greeting += data
        protocol = recognise(self._greeting)
        if protocol is None:
            return b""
        if protocol != NAME:
            self.write(HEADER)
            self.is_over = True
            return b""
        self.connection.receive_header(CLIENT, HEADER)
        self.say(0, ConnectionStart(0, 9, self.broker.properties, b"AMQPLAIN PLAIN", b"en_US"))
        return self._greeting[len(HEADER) :]

    def _has_ended(self) -> bool:
        return self.is_over

    def write(self, octets: bytes) -> None:
        """Send octets, in their turn."""
        self._output.append(octets)
        self._waiting += len(octets)
        if self._waiting > HIGH_WATER:
            self.has_room = False
        if len(self._output) == 1:
            self._wake()

    def say(self, channel: int, method: Method) -> None:
        """Send a method."""
        if method.class_id != 60:
            self.write(self.connection.send(SERVER, channel, method))
        else:
            self.write(encode_method(channel, method))

    def take_output(self) -> bytes:
        """All that is to be sent now."""
        output, self._output = self._output, []
        self._waiting = 0
        return output[0] if len(output) == 1 else b"".join(output)

    def sent(self, now: float) -> None:
        """What was taken is sent: there is room again."""
        if not self.has_room and self._waiting <= HIGH_WATER:
            self.has_room = True
            for channel in list(self.channels.values()):
                channel.pump(now)

    def to_confirm(self, channel: ServerChannel) -> None:
        """Confirm the channel's publishes once all that came with them is done."""
        self._confirming[channel] = None

    # --- methods

    def _receive(self, frame: Frame, now: float) -> None:
        if not self.connection.receive(CLIENT, frame) or frame.kind != METHOD:
            return
        method: Method = frame.method
        if frame.channel == 0:
            self._handle(method, now)
            return
        match method:
            case ChannelOpen():
                assert self.vhost is not None
                self.channels[frame.channel] = ServerChannel(frame.channel, self, self.vhost)
                self.say(frame.channel, ChannelOpenOk())
            case ChannelClose():
                self._close_channel(frame.channel, now)
                self.say(frame.channel, ChannelCloseOk())
            case ChannelCloseOk():
                pass
            case _:
                self.channels[frame.channel].handle(method, now)

    def _handle(self, method: Method, now: float) -> None:
        match method:
            case ConnectionStartOk():
                self._log_in(method)
            case ConnectionOpen():
                self._enter(method.virtual_host)
            case ConnectionUpdateSecret():
                self.say(0, ConnectionUpdateSecretOk())
            case ConnectionClose():
                self.lose(now)
                self.say(0, ConnectionCloseOk())
                self.is_over = True
            case ConnectionCloseOk():
                self.is_over = True
            case _:
                self.frame_max = self.connection.frame_max or self.broker.frame_max

    def _log_in(self, method: ConnectionStartOk) -> None:
        name, password = _credentials(method)
        self.user = self.broker.log_in(name, password, is_loopback=self._is_loopback)
        capabilities = method.client_properties.get("capabilities", {})
        if self.user is None:
            text = f"Login was refused using authentication mechanism {method.mechanism}. "
            text += "For details see the broker logfile."
            if isinstance(capabilities, Table) and capabilities.get("authentication_failure_close"):
                self.say(0, ConnectionClose(403, f"ACCESS_REFUSED - {text}"))
            self.is_over = True
            return
        self.takes_cancel = isinstance(capabilities, Table) and bool(capabilities.get("consumer_cancel_notify"))
        broker = self.broker
        self.say(0, ConnectionTune(broker.channel_max, broker.frame_max, broker.heartbeat))

    def _enter(self, name: str) -> None:
        self.vhost = self.broker.vhosts.get(name)
        if self.vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        self.say(0, ConnectionOpenOk())

    # --- the end

    def _refuse(self, frame: Frame, error: ProtocolError, now: float) -> None:
        """Close the channel or the connection, as the error says."""
        if frame.channel and not error.class_id and frame.kind == METHOD:
            error.class_id, error.method_id = frame.method.class_id, frame.method.method_id
        elif frame.channel and not error.class_id:
            error.class_id, error.method_id = 60, 40
        if error.scope is Scope.CHANNEL and frame.channel in self.channels:
            self._close_channel(frame.channel, now)
            self.say(frame.channel, ChannelClose(error.code, error.reply_text, error.class_id, error.method_id))
        else:
            self._close(error, now)

    def _close_channel(self, number: int, now: float) -> None:
        channel = self.channels.pop(number, None)
        if channel is not None:
            if channel in self._confirming:
                del self._confirming[channel]
                channel.confirm()
            channel.close(now)

    def _close(self, error: ProtocolError, now: float) -> None:
        self.lose(now)
        if self.connection.state in (State.OPENING, State.OPEN):
            self.say(0, ConnectionClose(error.code, error.reply_text, error.class_id, error.method_id))
        else:
            self.is_over = True

    def lose(self, now: float) -> None:
        """The client is gone, or as good as: its channels end, and its exclusive queues."""
        for number in list(self.channels):
            self._close_channel(number, now)
        if self.vhost is not None:
            for queue in [queue for queue in self.vhost.queues.values() if queue.exclusive_to is self]:
                self.vhost.remove_queue(queue)


def _credentials(method: ConnectionStartOk) -> tuple[str, str]:
    """The name and password of a SASL response, PLAIN or AMQPLAIN."""
    response = method.response
    if method.mechanism == "PLAIN":
        parts = response.decode("utf-8", "replace").split("\0")
        return (parts[1], parts[2]) if len(parts) == 3 else ("", "")
    if method.mechanism == "AMQPLAIN":
        try:
            table = Table.from_octets(response)
        except ProtocolError:
            return "", ""
        return str(table.get("LOGIN", "")), str(table.get("PASSWORD", ""))
    raise AccessRefused(f"unknown mechanism {method.mechanism}", scope=Scope.CONNECTION)
