"""One live client of a mock: takes its bytes and the time, and returns what the recorded server sends."""

from __future__ import annotations

from collections.abc import Iterator

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
from amqproxy.amqp091.login import user_of
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
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, CONNECTION_CLOSING, HAS_CHANNELS, SERVER, ConnectionState
from amqproxy.broker.access.sasl import credentials
from amqproxy.comparison.difference import Change, DifferenceKind, Place
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.mocking.amqp091.mock_channel import MockChannel, Task
from amqproxy.replay.mocking.amqp091.server_script import (
    SETTLEMENTS,
    Amqp091ServerScript,
    ChannelScript,
    ScriptedCommand,
    described,
    is_same,
    key_of,
)
from amqproxy.replay.mocking.cast import Cast, chosen
from amqproxy.replay.mocking.command_key import shape_of_key
from amqproxy.replay.mocking.later_tasks import LaterTasks
from amqproxy.replay.mocking.live_contents import LiveContents
from amqproxy.replay.mocking.mock_notes import MockNotes, is_of_the_run
from amqproxy.replay.mocking.mock_settings import CLOSING_TIME, HANDSHAKE_TIME, MAX_HELD, MockSettings
from amqproxy.replay.mocking.waiting_commands import nearest
from amqproxy.replay.names import ConnectionNames, SharedNames

USUAL_TUNE = ConnectionTune(2047, 131_072, 60)
"""What is proposed where the recording has no connection.tune."""


class Amqp091MockConnection:
    """The server's side of one connection.

    What is to be sent is in `output`, until it is taken; `wake_at` is when `tick` is to be called, at the latest. The
    socket is to be closed once `is_over`, after all output unless `is_cut`. `notes` are what the client did otherwise
    than the recorded one. A client that `is_foreign` speaks another protocol: it gets the header of this one.
    """

    def __init__(
        self, cast: Cast[Amqp091ServerScript], shared: SharedNames, settings: MockSettings, now: float
    ) -> None:
        self.names = ConnectionNames(shared)
        self.contents = LiveContents()
        self.script: Amqp091ServerScript | None = None
        self.output = bytearray()
        self.is_over = self.is_cut = self.is_foreign = False
        self.user = self.client_name = ""
        self.notes = MockNotes()
        self._cast = cast
        self._settings = settings
        self._protocol = Connection()
        self._header = b""
        self._later: LaterTasks[Task] = LaterTasks(now + HANDSHAKE_TIME)
        self._now = now
        self._readers: dict[int, CommandReader] = {}
        self._held: dict[int, int] = {}
        self._held_size = 0
        self._login: Amqp091ServerScript | None = None
        """Whose login is played; it may be another one that is played then."""
        self._challenges: Iterator[bytes] = iter(())
        self._candidates: list[Amqp091ServerScript] = []
        self._root = MockChannel(0, self, settings.speed)
        self._channels: dict[int, MockChannel] = {}
        self._left: list[ChannelScript] = []
        self._is_finished = False

    # --- time

    @property
    def wake_at(self) -> float:
        return self._later.wake_at(self._now, self._protocol.heartbeat)

    def tick(self, now: float) -> None:
        """Do what is to be done by now."""
        self._now = now
        protocol = self._protocol
        if self._later.is_late(now):
            self._cut()
            return
        while not self.is_over and self._later.perform_next(now):
            pass
        if protocol.state in HAS_CHANNELS and protocol.heartbeat:
            if protocol.is_silent(CLIENT, now):
                self._cut()
            elif protocol.is_heartbeat_due(SERVER, now):
                self._write(HEARTBEAT_FRAME)

    def later(self, when: float, order: int, channel: MockChannel, task: Task) -> None:
        self._later.add(when, order, channel, task, self._now)

    def take_output(self) -> bytes:
        """What is to be sent now."""
        output = bytes(self.output)
        self.output.clear()
        return output

    def _write(self, data: bytes) -> None:
        self.output += data
        self._protocol.note_received(SERVER, self._now)

    # --- what the client sends

    def feed(self, data: bytes, now: float) -> None:
        """Take what was received; b"" where the client has closed its half."""
        self._now = now
        if not data:
            self.is_over = True
            return
        self._protocol.note_received(CLIENT, now)
        if self._protocol.state is ConnectionState.NEW:
            data = self._greet(data)
            if not data:
                return
        reader = self._protocol.readers[CLIENT]
        try:
            for frame in reader.feed(data):
                if self.is_over:
                    return
                self._take(frame)
                self.tick(now)
            if reader.error is not None:
                raise reader.error
        except ProtocolError as error:
            self._refuse(error)
        self.tick(now)

    def _greet(self, data: bytes) -> bytes:
        """Take the protocol header; what is behind it."""
        self._header += data
        if not HEADER.startswith(self._header[: len(HEADER)]):
            self.output += HEADER
            self.is_over = self.is_foreign = True
            return b""
        if len(self._header) < len(HEADER):
            return b""
        rest = self._header[len(HEADER) :]
        self._protocol.receive_header(CLIENT, HEADER)
        script = self._cast.first()
        start = None if script is None else script.start
        self._send_method(0, start or ConnectionStart(mechanisms=b"PLAIN AMQPLAIN"))
        return rest

    def _take(self, frame: Frame) -> None:
        try:
            if not self._protocol.receive(CLIENT, frame):
                return
            command = self._gathered(frame)
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION or not frame.channel:
                raise
            self._refuse_channel(frame.channel, error)
            return
        if command is not None:
            self._take_command(command)

    def _gathered(self, frame: Frame) -> Command | None:
        """The command that a frame completes; what is held of others is bounded."""
        if frame.kind == HEARTBEAT:
            return None
        number = frame.channel
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = CommandReader()
        command = reader.add(frame)
        if command is None:
            self._held[number] = self._held.get(number, 0) + len(frame.raw)
            self._held_size += len(frame.raw)
            if self._held_size > MAX_HELD:
                text = f"more than {MAX_HELD} bytes of messages that are not whole"
                raise ResourceError(text, scope=Scope.CONNECTION)
            return None
        self._held_size -= self._held.pop(number, 0)
        if len(command.frames) == 1:
            return command
        # Of its own: what was read may be far more than this command.
        return Command(number, command.method, command.properties, bytes(command.body))

    def _take_command(self, command: Command) -> None:
        method = command.method
        if command.channel:
            self._take_on_channel(command, method)
            return
        match method:
            case ConnectionStartOk():
                self._log_in(method)
            case ConnectionSecureOk():
                self._go_on_with_login()
            case ConnectionTuneOk():
                pass
            case ConnectionOpen():
                self._open(method)
            case ConnectionClose():
                self._send_method(0, ConnectionCloseOk())
                self._later.end(self._now + CLOSING_TIME)
            case ConnectionCloseOk():
                self.is_over = True
            case _:
                self._play(self._root, command)

    # --- the handshake

    def _log_in(self, method: ConnectionStartOk) -> None:
        self.user = user_of(method)
        name = method.client_properties.get("connection_name")
        self.client_name = name if isinstance(name, str) else ""
        if self._settings.user is not None and not self._is_let_in(method, self._settings.user):
            self._close(AccessRefused("the user and password are not those of --user", scope=Scope.CONNECTION))
            return
        self._login = self._cast.refused(self.user) or self._cast.first(self.user, method.mechanism)
        if self._login is not None and self._login.mechanism == method.mechanism:
            self._challenges = iter(self._login.challenges)
        self._go_on_with_login()

    def _go_on_with_login(self) -> None:
        """Ask what the recorded server asked, and end the login as it did."""
        challenge = next(self._challenges, None)
        if challenge is not None:
            self._send_method(0, ConnectionSecure(challenge))
            return
        login = self._login
        if login is not None and login.refused is not None and login.virtual_host is None:
            self._adopt(login)
            self._close_with(login.refused)
            return
        self._send_method(0, (login.tune if login else None) or USUAL_TUNE)

    @staticmethod
    def _is_let_in(method: ConnectionStartOk, user: tuple[str, str]) -> bool:
        try:
            return credentials(method.mechanism, method.response) == user
        except ProtocolError:
            return False

    def _open(self, method: ConnectionOpen) -> None:
        self._candidates = self._cast.candidates(self.client_name, self.user, method.virtual_host)
        if not self._candidates:
            who = f"of user '{self.user}' in virtual host '{method.virtual_host}'"
            text = f"the recording has no connection {who} that is left to be played"
            self.notes.add_unanswered(text)
            self._close(NotImplementedByServer(text))
            return
        first = self._candidates[0]
        if first.refused is not None:
            self._adopt(first)
            self._close_with(first.refused)
            return
        self._later.deadline = None
        self._send_method(0, ConnectionOpenOk())
        if len(self._candidates) == 1:
            self._adopt(first)

    def _still_left(self) -> list[Amqp091ServerScript]:
        """The candidates that no other connection plays by now."""
        return self._cast.candidates(self.client_name, self.user, self._protocol.virtual_host)

    def _adopt(self, script: Amqp091ServerScript) -> None:
        """Play this one from now on."""
        self.script = script
        self._cast.take(script)
        self._root.bind(script.connection)
        self._left = list(script.channels)
        if script.opening is not None and script.refused is None:
            self._root.answer(script.opening.command, script.opening, self._now)

    # --- channels

    def _take_on_channel(self, command: Command, method: Method) -> None:
        number = command.channel
        match method:
            case ChannelOpen():
                self._channels[number] = MockChannel(number, self, self._settings.speed)
                self._send_method(number, ChannelOpenOk())
            case ChannelClose():
                self._end_channel(number)
                self._send_method(number, ChannelCloseOk())
            case ChannelCloseOk():
                pass
            case _:
                channel = self._channels.get(number)
                if channel is not None:
                    if self.script is None:
                        candidates = self._still_left() or self._candidates
                        self._adopt(
                            chosen(candidates, command.channel, key_of(method), lambda each: each.method == method)
                        )
                    if channel.script is None:
                        self._bind(channel, command)
                    self._play(channel, command)

    def _bind(self, channel: MockChannel, first: Command) -> None:
        """Find the recorded channel that this one plays, by what it does first, and by its number."""
        shape = shape_of_key(key_of(self.names.recorded(first).method))

        def score(script: ChannelScript) -> tuple[bool, bool]:
            return shape_of_key(script.commands[0].key) == shape, script.number == channel.number

        candidates = [each for each in self._left if shape in each.shapes]
        if candidates:
            found = max(candidates, key=score)
            self._left.remove(found)
            channel.bind(found)

    def _end_channel(self, number: int) -> None:
        channel = self._channels.pop(number, None)
        self._readers.pop(number, None)
        self._held_size -= self._held.pop(number, 0)
        if channel is not None:
            channel.is_over = True
            self._note_missing(channel)
            self.names.end_channel(number)

    def _play(self, channel: MockChannel, live: Command) -> None:
        """Answer a command as the recording has it."""
        now, method = self._now, live.method
        is_unknown_tag = channel.is_unknown_tag(method)
        recorded = channel.recorded(live)
        key = key_of(recorded.method)
        by_shape = not isinstance(method, SETTLEMENTS)
        scripted = channel.waiting.take(key, lambda each: is_same(each.command, recorded), by_shape=by_shape)
        if scripted is None:
            used = channel.waiting.used(key)
            channel.note(live, None, now)
            if isinstance(method, SETTLEMENTS):
                if is_unknown_tag:
                    self._has_no_answer(channel, live, f"unknown delivery tag {method.delivery_tag}")
            elif method.name in ANSWERS:
                pass
            elif used is not None:
                self._note(DifferenceKind.EXTRA, described(method), method)
                channel.answer(live, used, now, is_repeated=True)
            else:
                self._has_no_answer(channel, live, "")
            return
        if not isinstance(method, SETTLEMENTS):
            self._note_changes(scripted, recorded)
        channel.note(live, scripted, now)
        channel.answer(live, scripted, now)

    def _has_no_answer(self, channel: MockChannel, live: Command, why: str) -> None:
        text = why or f"the recording has no {described(live.method)} here"
        left = channel.waiting if channel.script else (each for script in self._left for each in script.commands)
        texts = (described(each.command.method) for each in left)
        near = None if why else nearest(texts, described(channel.recorded(live).method))
        if near is not None:
            text += f"; nearest: {near}"
        self._note(DifferenceKind.EXTRA, described(live.method), live.method)
        self.notes.add_unanswered(text)
        kind = PreconditionFailed if why else NotImplementedByServer
        error = kind(text, class_id=live.method.class_id, method_id=live.method.method_id)
        if self._settings.is_strict or not channel.number:
            self._close(error)
        else:
            self._refuse_channel(channel.number, error)

    # --- what is sent

    def send(self, command: Command) -> None:
        number = command.channel
        channel = self._protocol.channels.get(number)
        if number and (channel is None or not channel.takes_frames):
            return
        data = command.encode(self._protocol.frame_max)
        try:
            for frame in every_frame(data, 0):
                self._protocol.receive(SERVER, frame)
        except ProtocolError:  # an answer to what this client has not asked: it came otherwise than recorded
            return
        self._write(data)

    def _send_method(self, channel: int, method: Method) -> None:
        self._write(self._protocol.send(SERVER, channel, method))

    def close_channel(self, channel: MockChannel, command: Command) -> None:
        if self._is_open(channel.number):
            self._end_channel(channel.number)
            self._send_method(channel.number, command.method)

    def _refuse_channel(self, number: int, error: ProtocolError) -> None:
        if self._is_open(number):
            self._end_channel(number)
            close = ChannelClose(error.code, error.reply_text, error.class_id, error.method_id)
            self._send_method(number, close)

    def _is_open(self, number: int) -> bool:
        channel = self._protocol.channels.get(number)
        return channel is not None and channel.takes_frames

    def close_connection(self, command: Command) -> None:
        self._close_with(command.method)

    def _close(self, error: ProtocolError) -> None:
        self._close_with(ConnectionClose(error.code, error.reply_text, error.class_id, error.method_id))

    def _close_with(self, close: ConnectionClose) -> None:
        if self._protocol.state in CONNECTION_CLOSING:
            return
        self._later.end(self._now + CLOSING_TIME)
        self._send_method(0, close)

    def hang_up(self) -> None:
        self.is_over = True

    def _refuse(self, error: ProtocolError) -> None:
        """The client broke the protocol: say so, if it is far enough to understand that."""
        if self._protocol.state in HAS_CHANNELS:
            self._close(error)
        else:
            self.is_over = True

    def _cut(self) -> None:
        self.is_over = self.is_cut = True

    # --- what differed

    def finish(self) -> None:
        """The connection is over: note what the recorded client did and this one has not."""
        if self._is_finished:
            return
        self._is_finished = True
        self.is_over = True
        for number in list(self._channels):
            self._end_channel(number)
        self._note_missing(self._root)
        for script in self._left:
            for each in script.commands:
                self._note_scripted(each)

    def _note_missing(self, channel: MockChannel) -> None:
        for each in channel.waiting:
            self._note_scripted(each)

    def _note_scripted(self, scripted: ScriptedCommand) -> None:
        method = scripted.command.method
        if not isinstance(method, SETTLEMENTS) and method.name not in ANSWERS:
            self._note(DifferenceKind.MISSING, described(method), method, self._place(scripted))

    def _note_changes(self, scripted: ScriptedCommand, live: Command) -> None:
        try:
            found = tuple(each for each in answer_changes(scripted.command, live) if not is_of_the_run(each))
        except ProtocolError:
            return
        if found:
            method = scripted.command.method
            self._note(DifferenceKind.CHANGED, described(method), method, self._place(scripted), found)

    def _place(self, scripted: ScriptedCommand) -> Place:
        assert self.script is not None
        return Place(
            ts_ns=scripted.ts_ns,
            stream=self.script.stream,
            connection=self.script.name_of_ends,
            channel=scripted.command.channel or None,
        )

    def _note(
        self, kind: DifferenceKind, what: str, method: Method, a: Place | None = None, changes: tuple[Change, ...] = ()
    ) -> None:
        self.notes.add(kind, what, method.name, a, changes, is_publish=isinstance(method, BasicPublish))
