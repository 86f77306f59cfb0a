"""One live client of a mock that speaks AMQP 0-10: takes its bytes and the time, and returns what the server sends."""

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
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.amqp091.errors import cut_reply_text
from amqproxy.broker.access.sasl import credentials
from amqproxy.comparison.difference import Change, DifferenceKind, Place, changes
from amqproxy.conversion.command_view import command_view
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.peer import CLIENT
from amqproxy.replay.amqp010.names import with_recorded_names
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.mocking.amqp010.mock_session import Amqp010MockSession, Task
from amqproxy.replay.mocking.amqp010.server_script import (
    OF_THE_RUN,
    Amqp010ServerScript,
    ScriptedAssembly,
    SessionScript,
    described,
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
from amqproxy.taps.amqp010_record import plain

USUAL_TUNE = controls.ConnectionTune(256, MAX_FRAME, 0, 120)
"""What is proposed where the recording has no connection.tune."""

MECHANISMS = ("PLAIN", "ANONYMOUS", "EXTERNAL")
"""What is offered of what the recorded server has offered: others need a secret that the mock does not have."""

NOT_COMPARED = frozenset({"properties.timestamp", "xid"})
"""What each run has its own of."""


class Amqp010MockConnection:
    """The server's side of one connection; as `Amqp091MockConnection`, whose attributes and methods it has."""

    def __init__(
        self, cast: Cast[Amqp010ServerScript], shared: SharedNames, settings: MockSettings, now: float
    ) -> None:
        self.names = ConnectionNames(shared)
        self.contents = LiveContents()
        self.xids: dict[Xid, Xid] = {}
        self.script: Amqp010ServerScript | None = None
        self.output = bytearray()
        self.is_over = self.is_cut = self.is_foreign = False
        self.user = self.client_name = ""
        self.notes = MockNotes()
        self._cast = cast
        self._settings = settings
        self._header = b""
        self._reader = FrameReader(frame_max=FRAME_MIN_SIZE)
        self._frame_max = FRAME_MIN_SIZE
        self._readers: dict[int, AssemblyReader] = {}
        self._held: dict[int, int] = {}
        self._held_size = 0
        self._later: LaterTasks[Task] = LaterTasks(now + HANDSHAKE_TIME)
        self._now = self._heard_at = self._sent_at = now
        self._heartbeat = 0
        self._has_started = self._is_logged_in = self._is_open = self._is_closing = self._is_finished = False
        self._tune = USUAL_TUNE
        self._virtual_host = ""
        self._candidates: list[Amqp010ServerScript] = []
        self._sessions: dict[int, Amqp010MockSession] = {}
        self._left: list[SessionScript] = []

    # --- time

    @property
    def wake_at(self) -> float:
        return self._later.wake_at(self._now, self._heartbeat)

    def tick(self, now: float) -> None:
        """Do what is to be done by now."""
        self._now = now
        if self._later.is_late(now):
            self._cut()
            return
        while not self.is_over and self._later.perform_next(now):
            pass
        for session in self._sessions.values():
            if session.has_news and not session.is_over and not self._is_closing:
                session.announce()
        if self._heartbeat and self._is_open:
            if now - self._heard_at > 2 * self._heartbeat:
                self._cut()
            elif now - self._sent_at >= self._heartbeat / 2:
                self._send_control(controls.ConnectionHeartbeat())

    def later(self, when: float, order: int, session: Amqp010MockSession, task: Task) -> None:
        self._later.add(when, order, session, task, self._now)

    def take_output(self) -> bytes:
        """What is to be sent now."""
        output = bytes(self.output)
        self.output.clear()
        return output

    # --- what the client sends

    def feed(self, data: bytes, now: float) -> None:
        """Take what was received; b"" where the client has closed its half."""
        self._now = self._heard_at = now
        if not data:
            self.is_over = True
            return
        if not self._has_started:
            data = self._greet(data)
        try:
            for frame in self._reader.feed(data):
                if self.is_over:
                    return
                self._take(frame)
                self.tick(now)
            if self._reader.error is not None:
                raise self._reader.error
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
        self._has_started = True
        self.output += HEADER
        script = self._cast.first()
        start = (script.start if script else None) or controls.ConnectionStart(Map(), None, Array("str16", ["en_US"]))
        offered = [each for each in start.mechanisms or () if each in MECHANISMS]
        mechanisms = Array("str16", offered or ["PLAIN"])
        self._send_control(controls.ConnectionStart(start.server_properties, mechanisms, start.locales))
        return self._header[len(HEADER) :]

    def _take(self, frame: Frame) -> None:
        number = frame.channel
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = AssemblyReader()
        assembly = reader.add(frame)
        if assembly is None:
            self._held[number] = self._held.get(number, 0) + frame.length()
            self._held_size += frame.length()
            if self._held_size > MAX_HELD:
                raise FramingError(f"more than {MAX_HELD} bytes of messages that are not whole")
            return
        self._held_size -= self._held.pop(number, 0)
        method = assembly.method
        if method.name.startswith("connection."):
            self._take_on_connection(method)
        elif not self._is_open:
            raise FramingError(f"{method.name} before the connection is open")
        elif not self._is_closing:
            self._take_on_session(assembly, method)

    def _take_on_connection(self, control: Method) -> None:
        match control:
            case controls.ConnectionStartOk():
                self._log_in(control)
            case controls.ConnectionTuneOk() if self._is_logged_in:
                self._agree(control)
            case controls.ConnectionOpen() if self._is_logged_in:
                self._open(control)
            case controls.ConnectionClose():
                self._is_closing = True
                self._send_control(controls.ConnectionCloseOk())
                self._later.end(self._now + CLOSING_TIME)
            case controls.ConnectionCloseOk():
                self.is_over = True
            case controls.ConnectionHeartbeat():
                pass
            case _:
                raise FramingError(f"{control.name} may not come now")

    # --- the handshake

    def _log_in(self, method: controls.ConnectionStartOk) -> None:
        self.user = user_of(method.mechanism, method.response)
        properties: Map = method.client_properties or Map()
        names = [properties.get(name) for name in NAME_PROPERTIES]
        self.client_name = next((each for each in names if isinstance(each, str)), "")
        if self._settings.user is not None and not self._is_let_in(method, self._settings.user):
            self._close(320, "the user and password are not those of --user")
            return
        login = self._cast.refused(self.user) or self._cast.first(self.user, method.mechanism or "")
        if login is not None and login.refused is not None and login.virtual_host is None:
            self._adopt(login)
            self.close_connection(login.refused)
            return
        self._is_logged_in = True
        self._tune = (login.tune if login else None) or USUAL_TUNE
        self._send_control(self._tune)

    @staticmethod
    def _is_let_in(method: controls.ConnectionStartOk, user: tuple[str, str]) -> bool:
        try:
            return credentials(method.mechanism or "", method.response or b"") == user
        except ProtocolError091:
            return False

    def _agree(self, answer: controls.ConnectionTuneOk) -> None:
        offered = self._tune.max_frame_size or MAX_FRAME
        self._frame_max = max(FRAME_MIN_SIZE, min(answer.max_frame_size or offered, offered))
        self._heartbeat = min(answer.heartbeat or 0, self._tune.heartbeat_max or 0)
        self._reader.set_frame_max(self._frame_max)

    def _open(self, method: controls.ConnectionOpen) -> None:
        self._virtual_host = method.virtual_host or ""
        self._candidates = self._still_left()
        if not self._candidates:
            who = f"of user '{self.user}' in virtual host '{self._virtual_host}'"
            text = f"the recording has no connection {who} that is left to be played"
            self.notes.add_unanswered(text)
            self._close(320, text)
            return
        first = self._candidates[0]
        if first.refused is not None:
            self._adopt(first)
            self.close_connection(first.refused)
            return
        self._later.deadline = None
        self._is_open = True
        self._send_control(controls.ConnectionOpenOk())
        if len(self._candidates) == 1:
            self._adopt(first)

    def _still_left(self) -> list[Amqp010ServerScript]:
        """The candidates that no other connection plays by now."""
        return self._cast.candidates(self.client_name, self.user, self._virtual_host)

    def _adopt(self, script: Amqp010ServerScript) -> None:
        """Play this one from now on."""
        self.script = script
        self._cast.take(script)
        self._left = list(script.channels)

    # --- sessions

    def _take_on_session(self, assembly: Assembly, method: Method) -> None:
        number = assembly.channel
        session = self._sessions.get(number)
        if isinstance(method, controls.SessionAttach):
            self._end_session(number)
            name = method.name_ or b""
            session = self._sessions[number] = Amqp010MockSession(number, name, self, self._settings.speed)
            self.send(Assembly(number, controls.SessionAttached(name)))
        elif session is None or (session.is_over and isinstance(method, Command)):
            return  # of a session that has ended
        elif isinstance(method, Command):
            if self.script is None:
                candidates = self._still_left() or self._candidates
                found = chosen(candidates, number, key_of(assembly), lambda each: each.method == method)
                self._adopt(found)
            if session.script is None:
                self._bind(session, assembly)
            self._play(session, assembly)
        else:
            session.take_control(method, self._now)
            if session.is_over:
                self._end_session(number)

    def _bind(self, session: Amqp010MockSession, first: Assembly) -> None:
        """Find the recorded session that this one plays, by what it does first, and by its channel."""
        shape = shape_of_key(key_of(self._recorded(first)))

        def score(script: SessionScript) -> tuple[bool, bool]:
            return shape_of_key(script.commands[0].key) == shape, script.number == session.number

        candidates = [each for each in self._left if shape in each.shapes]
        if candidates:
            found = max(candidates, key=score)
            self._left.remove(found)
            session.bind(found)

    def _recorded(self, live: Assembly) -> Assembly:
        try:
            return with_recorded_names(self.names, CLIENT, live)
        except (Inexpressible, ProtocolError, ProtocolError091):
            return live

    def _end_session(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            session.is_over = True
            for each in session.waiting:
                self._note_missing(each)

    def _play(self, session: Amqp010MockSession, live: Assembly) -> None:
        """Answer a command as the recording has it."""
        now, live_id = self._now, session.number_command()
        recorded = self._recorded(live)
        key = key_of(recorded)
        scripted = session.waiting.take(key, lambda each: _is_same(each.command, recorded))
        if scripted is not None:
            self._note_changes(scripted, recorded)
            session.note(live, scripted, now)
            session.answer(live_id, scripted, now)
            return
        used = session.waiting.used(key)
        session.note(live, used, now)
        if isinstance(live.method, OF_THE_RUN):
            session.answer(live_id, None, now)
        elif used is not None:
            self._note(DifferenceKind.EXTRA, live)
            session.answer(live_id, used, now, is_repeated=True)
        else:
            self._has_no_answer(session, live, recorded, live_id)

    def _has_no_answer(self, session: Amqp010MockSession, live: Assembly, recorded: Assembly, live_id: int) -> None:
        text = f"the recording has no {described(live)} here"
        left = session.waiting if session.script else (each for script in self._left for each in script.commands)
        near = nearest((described(each.command) for each in left), described(recorded))
        if near is not None:
            text += f"; nearest: {near}"
        self._note(DifferenceKind.EXTRA, live)
        self.notes.add_unanswered(text)
        if self._settings.is_strict:
            self._close(320, text)
        else:
            session.refuse(live_id, ErrorCode.NOT_IMPLEMENTED, text)

    # --- what is sent

    def send(self, assembly: Assembly) -> None:
        self._write(assembly.encode(self._frame_max))

    def _send_control(self, control: Method) -> None:
        self._write(encode_method(0, control, self._frame_max))

    def _write(self, data: bytes) -> None:
        self.output += data
        self._sent_at = self._now

    def close_connection(self, close: controls.ConnectionClose) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._later.end(self._now + CLOSING_TIME)
            self._send_control(close)

    def _close(self, code: int, text: str) -> None:
        self.close_connection(controls.ConnectionClose(code, cut_reply_text(text)))

    def hang_up(self) -> None:
        self.is_over = True

    def _refuse(self, error: ProtocolError) -> None:
        """The client broke the protocol: say so, if it is far enough to understand that."""
        if self._is_open and not self._is_closing:
            self._close(501, error.text)
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
        for number in list(self._sessions):
            self._end_session(number)
        for script in self._left:
            for each in script.commands:
                self._note_missing(each)

    def _note_missing(self, scripted: ScriptedAssembly) -> None:
        if not isinstance(scripted.command.method, OF_THE_RUN):
            self._note(DifferenceKind.MISSING, scripted.command, self._place(scripted))

    def _note_changes(self, scripted: ScriptedAssembly, live: Assembly) -> None:
        if isinstance(live.method, OF_THE_RUN):
            return
        found = _changes(scripted.command, live)
        if found:
            self._note(DifferenceKind.CHANGED, scripted.command, self._place(scripted), found)

    def _place(self, scripted: ScriptedAssembly) -> Place:
        assert self.script is not None
        return Place(
            ts_ns=scripted.ts_ns,
            stream=self.script.stream,
            connection=self.script.name_of_ends,
            channel=scripted.command.channel,
        )

    def _note(
        self, kind: DifferenceKind, command: Assembly, a: Place | None = None, found: tuple[Change, ...] = ()
    ) -> None:
        method = command.method
        is_publish = isinstance(method, MessageTransfer)
        self.notes.add(kind, described(command), method.name, a, found, is_publish=is_publish)


def _is_same(recorded: Assembly, live: Assembly) -> bool:
    return bool(recorded.method == live.method and recorded.header == live.header and recorded.body == live.body)


def _changes(recorded: Assembly, live: Assembly) -> tuple[Change, ...]:
    """In what a live command differs: messages by what they are in 0-9-1."""
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
