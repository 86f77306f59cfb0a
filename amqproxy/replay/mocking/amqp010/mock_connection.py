"""One live 0-10 client of a mock."""

from __future__ import annotations

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.domains import ErrorCode
from amqproxy.amqp010.errors import FramingError, ProtocolError
from amqproxy.amqp010.frame import FRAME_MIN_SIZE, MAX_FRAME, Frame, encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.login import NAME_PROPERTIES, user_of
from amqproxy.amqp010.methods import Command, Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.wire import Array, Map
from amqproxy.amqp091.errors import cut_reply_text
from amqproxy.comparison.difference import Change, DifferenceKind, Place, changes
from amqproxy.conversion.command_view import command_view
from amqproxy.peer import CLIENT
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.mocking.amqp010.mock_session import Amqp010MockSession, recorded_names
from amqproxy.replay.mocking.amqp010.server_script import OF_THE_RUN, described, key_of
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.command_key import Key
from amqproxy.replay.mocking.mock_connection import Login, MockConnection, Refusal
from amqproxy.replay.mocking.mock_notes import is_of_the_run
from amqproxy.replay.mocking.mock_settings import MAX_HELD, MockSettings
from amqproxy.replay.names import SharedNames
from amqproxy.taps.amqp010.record import plain

USUAL_TUNE = controls.ConnectionTune(256, MAX_FRAME, 0, 120)
"""Proposal if the recording has no connection.tune."""

MECHANISMS = ("PLAIN", "ANONYMOUS", "EXTERNAL")
"""Mechanisms of the recorded server that are offered: others need a secret that the mock does not have."""

NOT_COMPARED = frozenset({"properties.timestamp", "xid"})
"""Fields that differ in every run."""


class Amqp010MockConnection(MockConnection[Assembly, Frame, Amqp010MockSession]):
    """The server's side of one 0-10 connection."""

    HEADER = HEADER
    ERRORS = (ProtocolError,)

    def __init__(self, cast: Cast[Assembly], shared: SharedNames, settings: MockSettings, now: float) -> None:
        super().__init__(cast, shared, settings, now)
        self.xids: dict[Xid, Xid] = {}
        self._frames = FrameReader(frame_max=FRAME_MIN_SIZE)
        self._frame_max = FRAME_MIN_SIZE
        self._readers: dict[int, AssemblyReader] = {}
        self._interval = 0
        self._has_opened = self._is_closing = False
        self._tune: controls.ConnectionTune | None = None

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
        number = frame.channel
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = AssemblyReader()
        assembly = reader.add(frame)
        if assembly is None:
            if self._hold(number, frame.length()):
                raise FramingError(f"more than {MAX_HELD} bytes of messages that are not whole")
            return
        self._release_held(number)
        method = assembly.method
        if method.name.startswith("connection."):
            self._take_on_connection(method)
        elif not self._has_opened:
            raise FramingError(f"{method.name} before the connection is open")
        elif not self._is_closing:
            self._take_on_session(assembly, method)

    def _forget_reader(self, number: int) -> None:
        self._readers.pop(number, None)

    def _take_on_connection(self, control: Method) -> None:
        match control:
            case controls.ConnectionStartOk():
                properties: Map = control.client_properties or Map()
                names = [properties.get(name) for name in NAME_PROPERTIES]
                name = next((each for each in names if isinstance(each, str)), "")
                user = user_of(control.mechanism, control.response)
                self._log_in(Login(user, name, control.mechanism or "", control.response or b""))
            case controls.ConnectionTuneOk() if self._tune is not None:
                self._agree(self._tune, control)
            case controls.ConnectionOpen() if self._tune is not None:
                self._open(control.virtual_host or "")
            case controls.ConnectionClose():
                self._is_closing = True
                self._send_control(controls.ConnectionCloseOk())
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
        self._send_control(controls.ConnectionStart(start.server_properties, mechanisms, start.locales))

    def _challenge(self, challenge: bytes) -> None:
        self._send_control(controls.ConnectionSecure(challenge))

    def _propose(self, tune: controls.ConnectionTune | None) -> None:
        self._tune = tune or USUAL_TUNE
        self._send_control(self._tune)

    def _agree(self, tune: controls.ConnectionTune, answer: controls.ConnectionTuneOk) -> None:
        offered = tune.max_frame_size or MAX_FRAME
        self._frame_max = max(FRAME_MIN_SIZE, min(answer.max_frame_size or offered, offered))
        self._interval = min(answer.heartbeat or 0, tune.heartbeat_max or 0)
        self._frames.set_frame_max(self._frame_max)

    def _accept(self) -> None:
        self._has_opened = True
        self._send_control(controls.ConnectionOpenOk())

    # --- commands

    def _key_of(self, command: Assembly) -> Key:
        return key_of(command)

    def _recorded_names(self, live: Assembly) -> Assembly:
        return recorded_names(self.names, live)

    def _begins_like(self, recorded: Assembly, live: Assembly) -> bool:
        return bool(recorded.method == live.method)

    def _is_same(self, recorded: Assembly, live: Assembly) -> bool:
        return bool(recorded.method == live.method and recorded.header == live.header and recorded.body == live.body)

    def _is_of_the_run(self, command: Assembly) -> bool:
        return isinstance(command.method, OF_THE_RUN)

    def _changes(self, recorded: Assembly, live: Assembly) -> tuple[Change, ...]:
        return _changes(recorded, live)

    def _described(self, command: Assembly) -> str:
        return described(command)

    def _channel_of(self, command: Assembly) -> int | None:
        return command.channel

    def _note(
        self, kind: DifferenceKind, command: Assembly, a: Place | None = None, changes: tuple[Change, ...] = ()
    ) -> None:
        is_publish = isinstance(command.method, MessageTransfer)
        self.notes.add(kind, described(command), command.method.name, a, changes, is_publish=is_publish)

    # --- sending

    def send(self, command: Assembly) -> None:
        self._write(command.encode(self._frame_max))

    def _send_control(self, control: Method) -> None:
        self._write(encode_method(0, control, self._frame_max))

    def _send_heartbeat(self) -> None:
        self._send_control(controls.ConnectionHeartbeat())

    def close_connection(self, close: controls.ConnectionClose) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end_later()
            self._send_control(close)

    def _close_for(self, refusal: Refusal, text: str, command: Assembly | None = None) -> None:
        self._close(320, text)

    def _close_channel_for(self, channel: Amqp010MockSession, refusal: Refusal, text: str, command: Assembly) -> None:
        channel.refuse(ErrorCode.NOT_IMPLEMENTED, text)

    def _close(self, code: int, text: str) -> None:
        self.close_connection(controls.ConnectionClose(code, cut_reply_text(text)))

    def _refuse(self, error: ProtocolError) -> None:
        if self._is_open:
            self._close(501, error.text)
        else:
            self.is_over = True


def _changes(recorded: Assembly, live: Assembly) -> tuple[Change, ...]:
    """Return the fields in which a live command differs; messages are compared in their 0-9-1 views, too."""
    found = changes(_fields(recorded), _fields(live))
    one, other = command_view(CLIENT, recorded), command_view(CLIENT, live)
    if isinstance(recorded.method, MessageTransfer) and one is not None and other is not None:
        found += [each for each in answer_changes(one, other) if each.field.startswith(("properties.", "body"))]
    return tuple(each for each in found if not is_of_the_run(each) and each.field.split("[")[0] not in NOT_COMPARED)


def _fields(command: Assembly) -> dict[str, object]:
    fields = {name: plain(value) for name, value in command.method.to_dict().items() if name not in NOT_COMPARED}
    if not command.method.carries_content:
        fields.pop("destination", None)
    return fields
