"""The live 0-9-1 connection of a replay: bytes from and to a broker, and all actions apart from the recorded ones.

It logs in, sends heartbeats, answers closes, and keeps the broker's commands until the recording asks for them. There
is no clock and no socket: the time is passed in, in seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEARTBEAT, HEARTBEAT_FRAME, METHOD, Frame, encode_method, every_frame
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionUnblocked,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState
from amqproxy.capture.amqp091.secrets import masked
from amqproxy.replay.amqp091.login import open_method, start_ok, tune_ok
from amqproxy.replay.amqp091.played_channel import LiveState, PlayedChannel
from amqproxy.replay.amqp091.restored_channel import fits
from amqproxy.replay.broker_link import BrokerLink, Life, ReplayedStream, on_one_line
from amqproxy.replay.content_key import content_key
from amqproxy.replay.deliveries import NOTHING, LiveDelivery

MAX_EARLY = 100_000
"""Live commands with one name on one channel that wait for recorded ones; those beyond it are reported at once."""

INITIAL_FRAME_MAX = 128 * 1024


class Amqp091LiveConnection(BrokerLink):
    """One 0-9-1 connection to a broker."""

    CLOSE_OK = ConnectionCloseOk()
    _masked = staticmethod(masked)

    def __init__(self, replayed: ReplayedStream, *, wake: Callable[[], None]) -> None:
        super().__init__(replayed, wake=wake)
        self._live = Connection(initial_frame_max=INITIAL_FRAME_MAX)
        self._readers: dict[int, CommandReader] = {}
        self._channels: dict[int, PlayedChannel] = {}
        self._own = PlayedChannel(0)  # the broker's commands on channel 0
        self._start: ConnectionStart | None = None
        self._tune: ConnectionTune | None = None
        self._has_frames = False
        self._headers = 0
        self._is_irregular = False
        """Whether one side has violated the protocol."""
        self._is_logging_in = False
        self._is_finishing = False

    def _greet(self) -> None:
        if self._is_joined:
            self._is_logging_in = True
            self._send_header(HEADER)

    def _feed(self, data: bytes) -> None:
        if not self._has_frames:
            if data[:4] == HEADER[:4]:
                self._headers += 1
                return
            self._has_frames = True
        reader = self._live.readers[SERVER]
        if reader.error is not None:
            return
        for frame in reader.feed(data):
            self._receive_frame(frame)
        error: ProtocolError | None = self._live.readers[SERVER].error
        if error is not None and self.life is Life.CONNECTED:
            self.fault(f"the broker sent what is no frame: {error.text}")

    @property
    def received(self) -> int:
        return self._live.readers[SERVER].offset

    @property
    def _heartbeat(self) -> float:
        return self._live.heartbeat

    def _send_heartbeat(self) -> None:
        self._write(HEARTBEAT_FRAME, has_secrets=False)

    @property
    def _is_entering(self) -> bool:
        return self._is_logging_in

    def _ask_for_end(self) -> None:
        if self._live.state is ConnectionState.OPEN and not self._is_irregular and not self._is_ending:
            self._is_ending = self._is_finishing = True
            self._send(0, ConnectionClose(200, "the replay is over"))
        elif not self._is_finishing:
            self._close("close")

    def settle(self, delivery: LiveDelivery, method: Method) -> None:
        """Settle one delivery on this connection; its recorded counterpart may have been on another one."""
        delivery.is_open = False
        channel = self._channels.get(delivery.channel)
        if channel is None or channel.live is not LiveState.OPEN or self.life is not Life.CONNECTED:
            return
        channel.live_open.pop(delivery.tag, None)
        self._send(delivery.channel, msgspec.structs.replace(method, delivery_tag=delivery.tag))

    def _send_header(self, data: bytes) -> None:
        with suppress(ProtocolError):  # a broker that accepts another header continues as with its own
            self._live.receive_header(CLIENT, HEADER)
        self._is_irregular |= data != HEADER
        self._trace.feed_protocol_header(self._now_ns)
        self._write(data, has_secrets=False)

    def _send(self, channel: int, method: Method) -> None:
        """Send a method that is not a recorded one."""
        self._write_frames(encode_method(channel, method))

    def _write_frames(self, data: bytes) -> None:
        frames = every_frame(data, 0)
        for frame in frames:
            with suppress(ProtocolError):
                self._live.receive(CLIENT, frame)
        if not self._is_irregular:
            self._result.live.note(self._trace.feed_noted(CLIENT, frames, self._now_ns))
        self._write(data)

    def _receive_frame(self, frame: Frame) -> None:
        try:
            is_live = self._live.receive(SERVER, frame)
        except ProtocolError as error:
            if not self._is_irregular and not self.ending:
                self._result.extra_event(
                    f"the broker broke the protocol: {error}", self.stream, self.connection, self._now_ns
                )
                self._is_irregular = True
            is_live = True
        if frame.kind == HEARTBEAT:
            return
        self._result.live.note(self._trace.feed_noted(SERVER, [frame], self._now_ns))
        name = BY_INDEX[frame.index].name if frame.kind == METHOD else ""
        if not is_live and name not in ("channel.close-ok", "connection.close-ok", "channel.close", "connection.close"):
            channel = self._channels.get(frame.channel)
            if channel is None or channel.live is not LiveState.CLOSED_BY_CLIENT:
                return
        reader = self._readers.get(frame.channel)
        if reader is None:
            reader = self._readers[frame.channel] = CommandReader()
        try:
            command = reader.add(frame)
            if command is not None:
                self._receive_command(command, command.method)
        except (ProtocolError, IndexError) as error:
            self.fault(f"the broker sent what cannot be read: {error}")

    def _receive_command(self, command: Command, method: Method) -> None:
        if command.channel == 0:
            self._receive_on_connection(command, method)
            return
        channel = self._channels.get(command.channel)
        if channel is None:
            self._result.extra(command, self.stream, self.connection, self._now_ns)
            return
        if channel.probed:
            self._receive_probed(channel, method)
            return
        match method:
            case ChannelOpenOk():
                channel.live = LiveState.OPEN
                if not channel.is_unknown:
                    self._arrive(channel, command)
            case ChannelClose():
                channel.why_closed = f"the channel was closed: {on_one_line(method.reply_text)}"
                if channel.live is LiveState.CLOSED_BY_CLIENT:
                    self._send(channel.number, ChannelCloseOk())
                else:
                    channel.live = LiveState.CLOSED_BY_SERVER
                self._arrive(channel, command)
            case ChannelCloseOk():
                channel.live = LiveState.CLOSED
                if not channel.is_quiet:
                    self._arrive(channel, command)
                self._end_channel(channel)
            case ChannelFlow():
                channel.is_stopped = not method.active
                self._send(channel.number, ChannelFlowOk(method.active))
                self._arrive(channel, command)
            case BasicDeliver():
                self._receive_delivery(channel, command, method)
            case BasicAck() | BasicNack():
                self._receive_confirm(channel, method)
            case _:
                request = channel.take_live(method)
                if isinstance(method, BasicGetOk) and request is not None:
                    self._receive_got(channel, command, method, request.method)
                if channel.is_unknown and method.name == "tx.select-ok" and request is None:
                    return
                self._arrive(channel, command)

    def _receive_on_connection(self, command: Command, method: Method) -> None:
        if self._is_logging_in:
            self._log_in(method)
            return
        match method:
            case ConnectionStart():
                self._start = method
            case ConnectionTune():
                self._tune = method
            case ConnectionClose():
                self.error = f"the connection was closed: {on_one_line(method.reply_text)}"
                if self._is_ending:
                    self._send(0, ConnectionCloseOk())
                else:
                    self._is_closed_by_server = True
                    for channel in self._channels.values():
                        channel.why_closed = self.error
            case ConnectionBlocked() | ConnectionUnblocked():
                pass
            case ConnectionCloseOk() if self._is_finishing:
                self._close("close")
                return
            case _:
                self._own.take_live(method)
        self._arrive(self._own, command)

    def _log_in(self, method: Method) -> None:
        """Answer the handshake of a connection whose recorded one is not in the capture."""
        match method:
            case ConnectionStart():
                self._send(0, start_ok(self._target, method, None))
            case ConnectionTune():
                self._send(0, tune_ok(method, None))
                host = self._recorded_host
                recorded = ConnectionOpen(host) if host is not None and fits(host) else None
                opened = open_method(self._target, recorded)
                self._virtual_host = opened.virtual_host
                self._send(0, opened)
            case ConnectionOpenOk():
                self._is_logging_in = False
            case ConnectionClose():
                self.error = f"the connection was closed: {on_one_line(method.reply_text)}"
                self._is_logging_in = False
                self._answer_connection_close()
            case _:
                pass

    def _receive_delivery(self, channel: PlayedChannel, command: Command, method: BasicDeliver) -> None:
        channel.last_live_tag = max(channel.last_live_tag, method.delivery_tag)
        consumer = channel.live_consumers.get(method.consumer_tag)
        if consumer is None:
            self._result.extra(command, self.stream, self.connection, self._now_ns)
            return
        key = content_key(self._names.recorded(command))
        is_open = not consumer.no_ack
        tag = method.delivery_tag
        delivery = LiveDelivery(self, channel.number, tag, consumer.queue, key, command, is_open=is_open)
        delivery.is_kept = consumer.is_ending or channel.is_ending
        if is_open:
            channel.live_open[method.delivery_tag] = delivery
        self._keep_delivery(delivery)

    def _receive_got(self, channel: PlayedChannel, command: Command, method: BasicGetOk, get: Method) -> None:
        channel.last_live_tag = max(channel.last_live_tag, method.delivery_tag)
        if not getattr(get, "no_ack", False):
            tag = method.delivery_tag
            channel.live_open[tag] = LiveDelivery(self, channel.number, tag, "", b"", NOTHING, is_open=True)

    def _receive_confirm(self, channel: PlayedChannel, method: BasicAck | BasicNack) -> None:
        tag = method.delivery_tag
        if method.multiple:
            numbers = [each for each in channel.live_unconfirmed if each <= tag or not tag]
        else:
            numbers = [tag] if tag in channel.live_unconfirmed else []
        for number in numbers:
            del channel.live_unconfirmed[number]
            channel.confirmed[number] = method.name

    def _receive_probed(self, channel: PlayedChannel, method: Method) -> None:
        """Take a reply on a channel that is being restored, and probe the next queue.

        Consumers of a queue that does not exist, or must not be used, are left out: they would close the channel.
        """
        number = channel.number
        if isinstance(method, ChannelClose):
            queue = channel.probed.popleft()
            channel.missing.add(queue)
            reason = on_one_line(method.reply_text)
            self._result.note(f"channel {number} was restored without consumers of queue {queue!r}: {reason}")
            self._send(number, ChannelCloseOk())
            self._end_channel(channel)
            self._send(number, ChannelOpen())
            channel.live = LiveState.OPENING
            return
        if isinstance(method, ChannelOpenOk):
            channel.live = LiveState.OPEN
        else:
            channel.probed.popleft()
        if channel.probed:
            probe = QueueDeclare(queue=channel.probed[0], passive=True)
            self._send(number, self._names.live(Command(number, probe)).method)

    def _arrive(self, channel: PlayedChannel, command: Command) -> None:
        """Keep a live command until the recording asks for it."""
        waiting = channel.arrived.setdefault(command.method.name, deque())
        if len(waiting) >= MAX_EARLY:
            self._result.extra(self._names.recorded(command), self.stream, self.connection, self._now_ns)
            return
        waiting.append(command)

    def _answer_channel_close(self, channel: PlayedChannel) -> None:
        self._send(channel.number, ChannelCloseOk())
        channel.live = LiveState.CLOSED
        self._end_channel(channel)

    def _end_channel(self, channel: PlayedChannel) -> None:
        for delivery in channel.live_open.values():
            delivery.is_open = False
        channel.live_open.clear()
        self._names.end_channel(channel.number)

    def _end_channels(self) -> None:
        self._is_logging_in = False
        for channel in self._channels.values():
            channel.live = LiveState.CLOSED
            channel.why_closed = channel.why_closed or self.error
            self._end_channel(channel)
