"""One live 0-10 client of a mock."""

from __future__ import annotations

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.domains import ErrorCode
from amqproxy.amqp010.errors import FramingError, ProtocolError
from amqproxy.amqp010.frame import FRAME_MIN_SIZE, MAX_FRAME, Frame, encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.login import user_of
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.wire import Array, Map
from amqproxy.amqp091.errors import cut_reply_text
from amqproxy.comparison.difference import Change, changes
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.conversion.client_name import QPID_NAMES
from amqproxy.peer import CLIENT
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.mocking.amqp010.mock_session import Amqp010MockSession, recorded_names
from amqproxy.replay.mocking.amqp010.server_script import OF_THE_RUN, described, key_of
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.mock_connection import Login, MockConnection, MockSettings, Refusal
from amqproxy.replay.mocking.mock_notes import is_of_the_run
from amqproxy.replay.mocking.server_script import Key
from amqproxy.replay.names import SharedNames
from amqproxy.taps.amqp010.record import plain

MECHANISMS = ("PLAIN", "ANONYMOUS", "EXTERNAL")
"""Mechanisms of the recorded server that are offered: others need a secret that the mock does not have."""

NOT_COMPARED = frozenset({"properties.timestamp", "xid"})
"""Fields that differ in every run."""


class Amqp010MockConnection(MockConnection[Assembly, Frame, Amqp010MockSession]):
    """The server's side of one 0-10 connection."""

    HEADER = HEADER
    HEARTBEAT = encode_method(0, controls.ConnectionHeartbeat(), FRAME_MIN_SIZE)
    SECURE = controls.ConnectionSecure
    OPEN_OK = controls.ConnectionOpenOk
    USUAL_TUNE = controls.ConnectionTune(256, MAX_FRAME, 0, 120)
    READER = AssemblyReader
    ERRORS = (ProtocolError,)

    def __init__(self, cast: Cast[Assembly], shared: SharedNames, settings: MockSettings, now: float) -> None:
        super().__init__(cast, shared, settings, now)
        self.xids: dict[Xid, Xid] = {}
        self._frames = FrameReader(frame_max=FRAME_MIN_SIZE)
        self._frame_max = FRAME_MIN_SIZE
        self._interval = 0
        self._is_closing = False

    # --- the client's frames

    @property
    def _reader(self) -> FrameReader:
        return self._frames

    @property
    def _heartbeat(self) -> float:
        return self._interval

    @property
    def _is_open(self) -> bool:
        return self._has_opened and not self._is_closing

    def _take(self, frame: Frame) -> None:
        assembly = self._gathered(frame)
        if assembly is None:
            return
        method = assembly.method
        if method.name.startswith("connection."):
            self._take_on_connection(method)
        elif not self._has_opened:
            raise FramingError(f"{method.name} before the connection is open")
        elif not self._is_closing:
            self._take_on_session(assembly, method)

    def _take_on_connection(self, control: Method) -> None:
        match control:
            case controls.ConnectionStartOk():
                properties: Map = control.client_properties or Map()
                names = [properties.get(name) for name in QPID_NAMES]
                name = next((each for each in names if isinstance(each, str)), "")
                user = user_of(control.mechanism, control.response)
                self._log_in(Login(user, name, control.mechanism or "", control.response or b""))
            case controls.ConnectionTuneOk() if self._tune is not None:
                self._agree(self._tune, control)
            case controls.ConnectionOpen() if self._tune is not None:
                self._open(control.virtual_host or "")
            case controls.ConnectionClose():
                self._is_closing = True
                self._send_method(0, controls.ConnectionCloseOk())
                self._end_later()
            case controls.ConnectionCloseOk():
                self.is_over = True
            case controls.ConnectionHeartbeat():
                pass
            case _:
                raise FramingError(f"{control.name} may not come now")

    def _take_on_session(self, assembly: Assembly, method: Method) -> None:
        number = assembly.channel
        session = self._channels.get(number)
        if isinstance(method, controls.SessionAttach):
            self._end_channel(number)
            name = method.name_ or b""
            self._channels[number] = Amqp010MockSession(number, name, self, self._settings.speed)
            self.send(Assembly(number, controls.SessionAttached(name)))
        elif session is None or (session.is_over and isinstance(method, Command)):
            return  # its session has ended
        elif isinstance(method, Command):
            self._play_on(session, assembly)
        else:
            session.take_control(method, self._now)
            if session.is_over:
                self._end_channel(number)

    # --- the handshake

    def _start(self, proposed: controls.ConnectionStart | None) -> None:
        self.output += HEADER
        start = proposed or controls.ConnectionStart(Map(), None, Array("str16", ["en_US"]))
        offered = [each for each in start.mechanisms or () if each in MECHANISMS]
        mechanisms = Array("str16", offered or ["PLAIN"])
        self._send_method(0, controls.ConnectionStart(start.server_properties, mechanisms, start.locales))

    def _agree(self, tune: controls.ConnectionTune, answer: controls.ConnectionTuneOk) -> None:
        offered = tune.max_frame_size or MAX_FRAME
        self._frame_max = max(FRAME_MIN_SIZE, min(answer.max_frame_size or offered, offered))
        self._interval = min(answer.heartbeat or 0, tune.heartbeat_max or 0)
        self._frames.set_frame_max(self._frame_max)

    # --- commands

    def _key_of(self, command: Assembly) -> Key:
        return key_of(command)

    def _recorded_names(self, live: Assembly) -> Assembly:
        return recorded_names(self.names, live)

    def _is_of_the_run(self, command: Assembly) -> bool:
        return isinstance(command.method, OF_THE_RUN)

    def _changes(self, recorded: Assembly, live: Assembly) -> tuple[Change, ...]:
        """Return the fields in which a live command differs; messages are compared in their 0-9-1 views, too."""
        found = changes(_fields(recorded), _fields(live))
        one, other = command_view(CLIENT, recorded), command_view(CLIENT, live)
        if isinstance(recorded.method, MessageTransfer) and one is not None and other is not None:
            found += [each for each in answer_changes(one, other) if each.field.startswith(("properties.", "body"))]
        return tuple(each for each in found if not is_of_the_run(each) and each.field.split("[")[0] not in NOT_COMPARED)

    def _described(self, command: Assembly) -> str:
        return described(command)

    # --- sending

    def send(self, command: Assembly) -> None:
        self._write(command.encode(self._frame_max))

    def _send_method(self, channel: int, method: Method) -> None:
        self._write(encode_method(channel, method, self._frame_max))

    def close_connection(self, close: controls.ConnectionClose) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end_later()
            self._send_method(0, close)

    def _close_for(self, refusal: Refusal, text: str, command: Assembly | None = None) -> None:
        self._close(501 if refusal is Refusal.TOO_MUCH else 320, text)

    def _close_channel_for(self, channel: Amqp010MockSession, refusal: Refusal, text: str, command: Assembly) -> None:
        channel.refuse(ErrorCode.NOT_IMPLEMENTED, text)

    def _close(self, code: int, text: str) -> None:
        self.close_connection(controls.ConnectionClose(code, cut_reply_text(text)))

    def _close_for_error(self, error: ProtocolError) -> None:
        self._close(501, error.text)


def _fields(command: Assembly) -> dict[str, object]:
    fields = {name: plain(value) for name, value in command.method.to_dict().items() if name not in NOT_COMPARED}
    if not command.method.carries_content:
        fields.pop("destination", None)
    return fields
