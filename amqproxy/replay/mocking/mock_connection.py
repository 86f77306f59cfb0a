"""One live client of a mock, sans-IO: takes its bytes and the time, and returns the recorded server's bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.broker.access.sasl import credentials
from amqproxy.comparison.difference import Change, DifferenceKind, Place
from amqproxy.replay.mocking.cast import Cast, chosen
from amqproxy.replay.mocking.later_tasks import LaterTasks
from amqproxy.replay.mocking.live_contents import LiveContents
from amqproxy.replay.mocking.mock_channel import MockChannel, Task
from amqproxy.replay.mocking.mock_notes import MockNotes
from amqproxy.replay.mocking.server_script import C, ChannelScript, Key, ScriptedCommand, ServerScript, shape_of_key
from amqproxy.replay.mocking.waiting_commands import nearest
from amqproxy.replay.names import ConnectionNames, SharedNames

HANDSHAKE_TIME = 10.0
"""Seconds that a client has to open its connection, as with RabbitMQ."""

CLOSING_TIME = 5.0
"""Seconds that a client has to answer a close, and to close its socket."""

MAX_HELD = 64 << 20
"""Bytes of incomplete contents that one connection may hold; more close it."""

F = TypeVar("F")
"""A frame."""

H = TypeVar("H", bound=MockChannel[Any])
"""A channel, or session."""


class MockSettings(NamedTuple):
    """Settings of a mock.

    `speed` is a factor on the recorded speed, 0 for no delays. Unless None, `user` is the name and the password that
    clients must log in with. If it `is_strict`, a command without an answer closes the connection, else the channel.
    """

    speed: float = 1.0
    user: tuple[str, str] | None = None
    is_strict: bool = False


class Login(NamedTuple):
    """A client's login: its claimed identity and its credentials."""

    user: str
    client_name: str
    mechanism: str
    response: bytes


class Refusal(Enum):
    """The reason of a mock's refusal."""

    ACCESS = auto()
    """The login is not accepted."""
    UNKNOWN = auto()
    """The recording has no answer to the command."""
    TOO_MUCH = auto()
    """The client's incomplete messages are too large."""
    MISTAKE = auto()
    """The command is wrong, whatever the recording has."""


class MockConnection(ABC, Generic[C, F, H]):
    """The server's side of one connection.

    `output` holds unsent bytes until `take_output`; `wake_at` is the latest time for a call of `tick`. The socket must
    be closed once `is_over`, after all output unless `is_cut`. `notes` are the differences from the recorded client. A
    client that `is_foreign` speaks another protocol: it gets the header of this one.

    A protocol's subclass reads and writes its frames: it calls `_log_in`, `_go_on_with_login`, `_open` and `_play` with
    the commands read, and provides the abstract methods.
    """

    HEADER: ClassVar[bytes]
    HEARTBEAT: ClassVar[bytes]
    """Encoded heartbeat."""
    SECURE: ClassVar[type[Any]]
    OPEN_OK: ClassVar[type[Any]]
    """The methods that challenge a client, and that open its connection."""
    USUAL_TUNE: ClassVar[Any]
    """Proposed limits if the recording lacks them."""
    READER: ClassVar[type[Any]]
    """Reader of the commands of one channel, which takes frames by `add`."""
    ERRORS: ClassVar[tuple[type[Exception], ...]]
    """Exceptions for a client's violations of the protocol, which close its connection."""

    def __init__(self, cast: Cast[C], shared: SharedNames, settings: MockSettings, now: float) -> None:
        self.names = ConnectionNames(shared)
        self.contents = LiveContents()
        self.script: ServerScript[C] | None = None
        self.output = bytearray()
        self.is_over = self.is_cut = self.is_foreign = False
        self.user = self.client_name = ""
        self.notes = MockNotes()
        self._cast = cast
        self._settings = settings
        self._header = b""
        self._has_greeted = self._has_opened = self._is_finished = False
        self._tune: Any = None
        """The proposed limits."""
        self._readers: dict[int, Any] = {}
        self._later: LaterTasks[Task] = LaterTasks(now + HANDSHAKE_TIME)
        self._now = self._heard_at = self._sent_at = now
        self._held: dict[int, int] = {}
        self._held_size = 0
        self._login: ServerScript[C] | None = None
        """The script whose login is played; another one may follow it."""
        self._challenges: Iterator[bytes] = iter(())
        self._virtual_host = ""
        self._candidates: list[ServerScript[C]] = []
        self._root: H | None = None
        """The channel for commands of the connection itself, if the protocol has such commands."""
        self._channels: dict[int, H] = {}
        self._left: list[ChannelScript[C]] = []

    # --- the protocol's part: frames

    @property
    @abstractmethod
    def _reader(self) -> Any:
        """The reader of the client's frames, with the `error` at which it stopped."""

    @property
    @abstractmethod
    def _heartbeat(self) -> float:
        """Negotiated heartbeat interval in seconds; 0 without heartbeats."""

    @property
    @abstractmethod
    def _is_open(self) -> bool:
        """Whether the connection is open and not closing."""

    @abstractmethod
    def _take(self, frame: F) -> None:
        """Take a frame of the client."""

    @abstractmethod
    def _start(self, proposed: Any) -> None:
        """Answer the protocol header with the recorded server's proposal; None if the recording lacks it."""

    @abstractmethod
    def _send_method(self, channel: int, method: Any) -> None:
        """Send a method without content."""

    @abstractmethod
    def close_connection(self, close: Any) -> None:
        """Close the connection with this method."""

    @abstractmethod
    def _close_for(self, refusal: Refusal, text: str, command: C | None = None) -> None:
        """Close the connection for a reason, and for the command that was refused."""

    @abstractmethod
    def _close_channel_for(self, channel: H, refusal: Refusal, text: str, command: C) -> None:
        """Close a channel for a command that was refused."""

    @abstractmethod
    def _close_for_error(self, error: Any) -> None:
        """Close the connection for one of `ERRORS`."""

    # --- the protocol's part: commands

    @abstractmethod
    def _key_of(self, command: C) -> Key:
        """Return the key of a client command, which must have the recorded names."""

    @abstractmethod
    def _recorded_names(self, live: C) -> C:
        """Return a client command with the recorded names."""

    @abstractmethod
    def _is_of_the_run(self, command: C) -> bool:
        """Return whether a command depends on the speed of deliveries, and so is never a difference."""

    def _matches_by_shape(self, command: C) -> bool:
        """Return whether a command may stand for one with other generated names."""
        return True

    @abstractmethod
    def _changes(self, recorded: C, live: C) -> tuple[Change, ...]:
        """Return the fields in which a live command differs, apart from those that differ in every run."""

    @abstractmethod
    def _described(self, command: C) -> str:
        """Return a command in a few words."""

    # --- time

    @property
    def wake_at(self) -> float:
        return self._later.wake_at(self._now, self._heartbeat)

    def tick(self, now: float) -> None:
        """Perform due tasks, send a due heartbeat, and cut the connection after a deadline or two silent intervals."""
        self._now = now
        if self._later.is_late(now):
            self._cut()
            return
        while not self.is_over and self._later.perform_next(now):
            pass
        if not self._is_open:
            return
        for channel in self._channels.values():
            if channel.has_news and not channel.is_over:
                channel.announce()
        if self._heartbeat and now - self._heard_at > 2 * self._heartbeat:
            self._cut()
        elif self._heartbeat and now - self._sent_at >= self._heartbeat / 2:
            self._write(self.HEARTBEAT)

    def later(self, when: float, order: int, channel: MockChannel[C], task: Task) -> None:
        self._later.add(when, order, channel, task, self._now)

    def take_output(self) -> bytes:
        """Take and return the bytes to send."""
        output = bytes(self.output)
        self.output.clear()
        return output

    def _write(self, data: bytes) -> None:
        self.output += data
        self._sent_at = self._now

    # --- the client's frames

    def feed(self, data: bytes, now: float) -> None:
        """Process received bytes; b"" if the client has closed its half."""
        self._now = self._heard_at = now
        if not data:
            self.is_over = True
            return
        if not self._has_greeted:
            data = self._greet(data)
            if not data:
                return
        reader = self._reader
        try:
            for frame in reader.feed(data):
                if self.is_over:
                    return
                self._take(frame)
                self.tick(now)
            if reader.error is not None:
                raise reader.error
        except self.ERRORS as error:
            if self._is_open:
                self._close_for_error(error)
            else:
                self.is_over = True
        self.tick(now)

    def _greet(self, data: bytes) -> bytes:
        """Process the protocol header; return the bytes after it."""
        self._header += data
        size = len(self.HEADER)
        if not self.HEADER.startswith(self._header[:size]):
            self.output += self.HEADER
            self.is_over = self.is_foreign = True
            return b""
        if len(self._header) < size:
            return b""
        self._has_greeted = True
        script = self._cast.first()
        self._start(None if script is None else script.start)
        return self._header[size:]

    def _gathered(self, frame: Any) -> C | None:
        """Return the command that a frame completes."""
        number = frame.channel
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = self.READER()
        command: C | None = reader.add(frame)
        if command is not None:
            self._held_size -= self._held.pop(number, 0)
            return command
        self._held[number] = self._held.get(number, 0) + frame.length()
        self._held_size += frame.length()
        if self._held_size > MAX_HELD:
            self._close_for(Refusal.TOO_MUCH, f"more than {MAX_HELD} bytes of messages that are not whole")
            self._readers.clear()
            self._held.clear()
            self._held_size = 0
        return None

    # --- the handshake

    def _log_in(self, login: Login) -> None:
        self.user, self.client_name = login.user, login.client_name
        if self._settings.user is not None and not _is_let_in(login, self._settings.user):
            self._close_for(Refusal.ACCESS, "the user and password are not those of --user")
            return
        self._login = self._cast.refused(self.user) or self._cast.first(self.user, login.mechanism)
        if self._login is not None and self._login.mechanism == login.mechanism:
            self._challenges = iter(self._login.challenges)
        self._go_on_with_login()

    def _go_on_with_login(self) -> None:
        """Send the recorded server's next challenge, or end the login as it did."""
        challenge = next(self._challenges, None)
        if challenge is not None:
            self._send_method(0, self.SECURE(challenge))
            return
        login = self._login
        if login is not None and login.refused is not None and login.virtual_host is None:
            self._adopt(login)
            self.close_connection(login.refused)
            return
        self._tune = (login and login.tune) or self.USUAL_TUNE
        self._send_method(0, self._tune)

    def _open(self, virtual_host: str) -> None:
        self._virtual_host = virtual_host
        self._candidates = self._still_left()
        if not self._candidates:
            who = f"of user '{self.user}' in virtual host '{virtual_host}'"
            text = f"the recording has no connection {who} that is left to be played"
            self.notes.add_unanswered(text)
            self._close_for(Refusal.UNKNOWN, text)
            return
        first = self._candidates[0]
        if first.refused is not None:
            self._adopt(first)
            self.close_connection(first.refused)
            return
        self._later.deadline = None
        self._has_opened = True
        self._send_method(0, self.OPEN_OK())
        if len(self._candidates) == 1:
            self._adopt(first)

    def _still_left(self) -> list[ServerScript[C]]:
        """Return the candidates that no other connection has taken meanwhile."""
        return self._cast.candidates(self.client_name, self.user, self._virtual_host)

    def _adopt(self, script: ServerScript[C]) -> None:
        """Begin to play a script."""
        self.script = script
        self._cast.take(script)
        self._left = list(script.channels)
        if self._root is not None:
            self._root.bind(script.connection)
            if script.opening is not None and script.refused is None:
                self._root.answer(script.opening.command, script.opening, self._now)

    # --- channels

    def _play_on(self, channel: H, command: C) -> None:
        """Answer a command on a channel; the first one identifies the recorded connection and channel."""
        if self.script is None:
            candidates = self._still_left() or self._candidates
            key = self._key_of(command)
            self._adopt(chosen(candidates, channel.number, key, lambda each: each.method == command.method))
        if channel.script is None:
            self._bind(channel, command)
        self._play(channel, command)

    def _bind(self, channel: H, first: C) -> None:
        """Find the recorded channel that this one plays, by its first command, and by its number."""
        shape = shape_of_key(self._key_of(self._recorded_names(first)))

        def score(script: ChannelScript[C]) -> tuple[bool, bool]:
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
            self._note_missing(channel.waiting)
            self.names.end_channel(number)

    def _play(self, channel: H, live: C) -> None:
        """Answer a command as the recorded one was, and note the differences."""
        now = self._now
        mistake = channel.mistake(live)
        recorded = channel.receive(live)
        key = self._key_of(recorded)
        is_of_the_run = self._is_of_the_run(live)
        by_shape = self._matches_by_shape(live)
        scripted = channel.waiting.take(key, lambda each: _is_same(each, recorded), by_shape=by_shape)
        if scripted is not None:
            if not is_of_the_run:
                self._note_changes(scripted, recorded)
            channel.note(live, scripted, None, now)
            channel.answer(live, scripted, now)
            return
        used = channel.waiting.used(key)
        channel.note(live, None, used, now)
        if is_of_the_run and not mistake:
            channel.answer(live, None, now)
        elif used is not None and not mistake:
            self._note(DifferenceKind.EXTRA, live)
            channel.answer(live, used, now, is_repeated=True)
        else:
            self._has_no_answer(channel, live, recorded, mistake)

    def _has_no_answer(self, channel: H, live: C, recorded: C, mistake: str) -> None:
        text = mistake or f"the recording has no {self._described(live)} here"
        left = channel.waiting if channel.script else (each for script in self._left for each in script.commands)
        texts = (self._described(each.command) for each in left)
        near = None if mistake else nearest(texts, self._described(recorded))
        if near is not None:
            text += f"; nearest: {near}"
        self._note(DifferenceKind.EXTRA, live)
        self.notes.add_unanswered(text)
        refusal = Refusal.MISTAKE if mistake else Refusal.UNKNOWN
        if self._settings.is_strict or channel is self._root:
            self._close_for(refusal, text, live)
        else:
            self._close_channel_for(channel, refusal, text, live)

    # --- the end

    def hang_up(self) -> None:
        self.is_over = True

    def _cut(self) -> None:
        self.is_over = self.is_cut = True

    def _end_later(self) -> None:
        """Give the client time to answer a close, and to close the socket."""
        self._later.end(self._now + CLOSING_TIME)

    def finish(self) -> None:
        """Note the recorded commands that this client has not sent, at the end of the connection."""
        if self._is_finished:
            return
        self._is_finished = True
        self.is_over = True
        for number in list(self._channels):
            self._end_channel(number)
        if self._root is not None:
            self._note_missing(self._root.waiting)
        for script in self._left:
            self._note_missing(script.commands)

    def _note(self, kind: DifferenceKind, command: C, a: Place | None = None, changes: tuple[Change, ...] = ()) -> None:
        """Note a difference in a command; `a` is where the recording has it."""
        method = command.method
        self.notes.add(kind, self._described(command), method.name, a, changes, is_publish=method.carries_content)

    def _note_missing(self, commands: Iterable[ScriptedCommand[C]]) -> None:
        for each in commands:
            if not self._is_of_the_run(each.command):
                self._note(DifferenceKind.MISSING, each.command, self._place(each))

    def _note_changes(self, scripted: ScriptedCommand[C], live: C) -> None:
        found = self._changes(scripted.command, live)
        if found:
            self._note(DifferenceKind.CHANGED, scripted.command, self._place(scripted), found)

    def _place(self, scripted: ScriptedCommand[C]) -> Place:
        assert self.script is not None
        return Place(
            ts_ns=scripted.ts_ns,
            stream=self.script.stream,
            connection=self.script.name_of_ends,
            channel=scripted.command.channel if self._root is None else scripted.command.channel or None,
        )


def _is_same(recorded: Any, live: Any) -> bool:
    """Return whether two commands are the same, with their contents."""
    return bool(
        recorded.method == live.method
        and recorded.body_size == live.body_size
        and recorded.header == live.header
        and recorded.body == live.body
    )


def _is_let_in(login: Login, user: tuple[str, str]) -> bool:
    try:
        return credentials(login.mechanism, login.response) == user
    except ProtocolError:
        return False
