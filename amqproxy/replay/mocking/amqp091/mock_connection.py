"""One live 0-9-1 client of a mock."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import (
    AccessRefused,
    NotImplementedByServer,
    PreconditionFailed,
    ProtocolError,
    ResourceError,
    Scope,
)
from amqproxy.amqp091.frame import HEARTBEAT, HEARTBEAT_FRAME, Frame, every_frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, CONNECTION_CLOSING, HAS_CHANNELS, SERVER
from amqproxy.comparison.difference import Change
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.mocking.amqp091.mock_channel import Amqp091MockChannel
from amqproxy.replay.mocking.amqp091.server_script import SETTLEMENTS, described, key_of
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.mock_connection import Login, MockConnection, MockSettings, Refusal
from amqproxy.replay.mocking.mock_notes import is_of_the_run
from amqproxy.replay.mocking.server_script import Key
from amqproxy.replay.names import SharedNames


class Amqp091MockConnection(MockConnection[Command, Frame, Amqp091MockChannel]):
    """The server's side of one 0-9-1 connection."""

    HEADER = HEADER
    HEARTBEAT = HEARTBEAT_FRAME
    SECURE = ConnectionSecure
    OPEN_OK = ConnectionOpenOk
    USUAL_TUNE = ConnectionTune(2047, 131_072, 60)
    READER = CommandReader
    ERRORS = (ProtocolError,)

    def __init__(self, cast: Cast[Command], shared: SharedNames, settings: MockSettings, now: float) -> None:
        super().__init__(cast, shared, settings, now)
        self._protocol = Connection()
        self._own = self._root = Amqp091MockChannel(0, self, settings.speed)

    # --- the client's frames

    @property
    def _reader(self) -> FrameReader:
        return self._protocol.readers[CLIENT]

    @property
    def _heartbeat(self) -> float:
        return self._protocol.heartbeat

    @property
    def _is_open(self) -> bool:
        return self._protocol.state in HAS_CHANNELS

    def _take(self, frame: Frame) -> None:
        try:
            if not self._protocol.receive(CLIENT, frame):
                return
            command = None if frame.kind == HEARTBEAT else self._gathered(frame)
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION or not frame.channel:
                raise
            self._refuse_channel(frame.channel, error)
            return
        if command is not None:
            if len(command.frames) > 1:
                # A copy: the frames may be slices of a far larger read buffer, which they would keep alive.
                command = Command(command.channel, command.method, command.properties, bytes(command.body))
            self._take_command(command)

    def _take_command(self, command: Command) -> None:
        method = command.method
        if command.channel:
            self._take_on_channel(command, method)
            return
        match method:
            case ConnectionStartOk():
                name = method.client_properties.get("connection_name")
                client_name = name if isinstance(name, str) else ""
                self._log_in(Login(user_of(method), client_name, method.mechanism, method.response))
            case ConnectionSecureOk():
                self._go_on_with_login()
            case ConnectionTuneOk():
                pass
            case ConnectionOpen():
                self._open(method.virtual_host)
            case ConnectionClose():
                self._send_method(0, ConnectionCloseOk())
                self._end_later()
            case ConnectionCloseOk():
                self.is_over = True
            case _:
                self._play(self._own, command)

    def _take_on_channel(self, command: Command, method: Method) -> None:
        number = command.channel
        match method:
            case ChannelOpen():
                self._channels[number] = Amqp091MockChannel(number, self, self._settings.speed)
                self._send_method(number, ChannelOpenOk())
            case ChannelClose():
                self._end_channel(number)
                self._send_method(number, ChannelCloseOk())
            case ChannelCloseOk():
                pass
            case _:
                channel = self._channels.get(number)
                if channel is not None:
                    self._play_on(channel, command)

    # --- the handshake

    def _start(self, proposed: ConnectionStart | None) -> None:
        self._protocol.receive_header(CLIENT, HEADER)
        self._send_method(0, proposed or ConnectionStart(mechanisms=b"PLAIN AMQPLAIN"))

    # --- commands

    def _key_of(self, command: Command) -> Key:
        return key_of(command.method)

    def _recorded_names(self, live: Command) -> Command:
        return self.names.recorded(live)

    def _is_of_the_run(self, command: Command) -> bool:
        return isinstance(command.method, SETTLEMENTS) or command.method.name in ANSWERS

    def _matches_by_shape(self, command: Command) -> bool:
        return not isinstance(command.method, SETTLEMENTS)

    def _changes(self, recorded: Command, live: Command) -> tuple[Change, ...]:
        try:
            return tuple(each for each in answer_changes(recorded, live) if not is_of_the_run(each))
        except ProtocolError:
            return ()

    def _described(self, command: Command) -> str:
        return described(command.method)

    # --- sending

    def send(self, command: Command) -> None:
        number = command.channel
        channel = self._protocol.channels.get(number)
        if number and (channel is None or not channel.takes_frames):
            return
        data = command.encode(self._protocol.frame_max)
        try:
            for frame in every_frame(data, 0):
                self._protocol.receive(SERVER, frame)
        except ProtocolError:  # an answer to a request that this client has not made, unlike the recorded one
            return
        self._write(data)

    def _send_method(self, channel: int, method: Method) -> None:
        self._write(self._protocol.send(SERVER, channel, method))

    def close_channel(self, channel: Amqp091MockChannel, close: Method) -> None:
        number = channel.number
        if self._takes_frames(number):
            self._end_channel(number)
            self._send_method(number, close)

    def _close_channel_for(self, channel: Amqp091MockChannel, refusal: Refusal, text: str, command: Command) -> None:
        self._refuse_channel(channel.number, _error(refusal, text, command))

    def _refuse_channel(self, number: int, error: ProtocolError) -> None:
        if self._takes_frames(number):
            self._end_channel(number)
            close = ChannelClose(error.code, error.reply_text, error.class_id, error.method_id)
            self._send_method(number, close)

    def _takes_frames(self, number: int) -> bool:
        channel = self._protocol.channels.get(number)
        return channel is not None and channel.takes_frames

    def close_connection(self, close: ConnectionClose) -> None:
        if self._protocol.state not in CONNECTION_CLOSING:
            self._end_later()
            self._send_method(0, close)

    def _close_for(self, refusal: Refusal, text: str, command: Command | None = None) -> None:
        self._close_for_error(_error(refusal, text, command))

    def _close_for_error(self, error: ProtocolError) -> None:
        self.close_connection(ConnectionClose(error.code, error.reply_text, error.class_id, error.method_id))


_ERRORS: dict[Refusal, type[ProtocolError]] = {
    Refusal.ACCESS: AccessRefused,
    Refusal.UNKNOWN: NotImplementedByServer,
    Refusal.TOO_MUCH: ResourceError,
    Refusal.MISTAKE: PreconditionFailed,
}


def _error(refusal: Refusal, text: str, command: Command | None) -> ProtocolError:
    method = None if command is None else command.method
    class_id, method_id = (0, 0) if method is None else (method.class_id, method.method_id)
    scope = Scope.CONNECTION if command is None else None
    return _ERRORS[refusal](text, scope=scope, class_id=class_id, method_id=method_id)
