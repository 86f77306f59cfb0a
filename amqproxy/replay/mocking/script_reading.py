"""Reading of a server script from the steps of a recorded connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from amqproxy.peer import CLIENT, SERVER
from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.server_script import (
    Answer,
    AnswerKind,
    C,
    ChannelScript,
    Key,
    ScriptedCommand,
    ServerScript,
)
from amqproxy.replay.steps import ConnectionEnded, SentStep


class ChannelReading(Generic[C]):
    """State of a recorded channel or session while its script is read."""

    def __init__(self, script: ChannelScript[C]) -> None:
        self.script = script
        self.consumers: dict[str, ScriptedCommand[C]] = {}
        """Commands that started its consumers, by consumer tag."""
        self.last: ScriptedCommand[C] | None = None
        self.last_settlement_ns = 0
        self.is_transacted = False


R = TypeVar("R", bound=ChannelReading[Any])


class ScriptReading(ABC, Generic[C, R]):
    """Reader of a script. A protocol adds the commands of client and server; the rest is what all protocols share."""

    CHANNEL: type[R]

    def __init__(self, script: ServerScript[C], dialogue: ConnectionSteps) -> None:
        self.script = script
        self.channels: dict[int, R] = {}
        self.latest: ScriptedCommand[C] | None = None
        self.is_open = self.is_closed = False
        self._steps = dialogue.steps
        self._numbers = self._orders = 0
        self._published: dict[bytes, list[ScriptedCommand[C]]] = {}
        self._claimed: dict[tuple[Any, ...], int] = {}
        self._delivered_ns: dict[int, int] = {}
        self._transacted: set[int] = set()
        """Numbers of publishes in transactions."""
        self.committed: ScriptedCommand[C] | None = None
        """The latest command that committed a transaction."""
        self.returned: ScriptedCommand[C] | None = None
        """The latest command that requeued messages."""

    def read(self) -> ServerScript[C]:
        """Read all steps; return the script."""
        for step in self._steps:
            if isinstance(step, ConnectionEnded):
                if step.by is SERVER and not self.is_closed:
                    self.answer(self.latest, AnswerKind.HANG_UP, step.ts_ns)
            elif isinstance(step, SentStep) and step.is_readable:
                if step.sender is CLIENT:
                    self.take_of_client(step, step.method)
                else:
                    self._orders += 1
                    self.take_of_server(step, step.method)
        return self.script

    @abstractmethod
    def take_of_client(self, step: Any, method: Any) -> None:
        """Take a command of the client."""

    @abstractmethod
    def take_of_server(self, step: Any, method: Any) -> None:
        """Take a command of the server."""

    def begin_channel(self, number: int) -> R:
        """Begin the script of a channel or session."""
        script: ChannelScript[C] = ChannelScript(number)
        channel = self.channels[number] = self.CHANNEL(script)
        self.script.channels.append(script)
        return channel

    def next_order(self) -> int:
        """Number an action of the server."""
        self._orders += 1
        return self._orders

    def add_command(self, channel: R, ts_ns: int, command: C, key: Key) -> ScriptedCommand[C]:
        """Add a client command."""
        self._numbers += 1
        scripted = ScriptedCommand(self._numbers, ts_ns, command, key)
        channel.script.commands.append(scripted)
        channel.last = self.latest = scripted
        return scripted

    def note_publish(self, channel: R, scripted: ScriptedCommand[C], content: bytes) -> None:
        """Note a publish of the client, by the key of its content."""
        if channel.is_transacted:
            self._transacted.add(scripted.number)
        self._published.setdefault(content, []).append(scripted)

    def answer(
        self,
        to: ScriptedCommand[C] | None,
        kind: AnswerKind,
        ts_ns: int,
        command: C | None = None,
        source: ScriptedCommand[C] | None = None,
    ) -> None:
        """Add an answer to a client command; no effect if that is None, since it is not in the capture."""
        if to is not None:
            to.answers.append(Answer(kind, self._orders, (ts_ns - to.ts_ns) / 1e9, command, source=source))

    def add_delivery(
        self,
        channel: R,
        consume: ScriptedCommand[C],
        ts_ns: int,
        command: C,
        content: bytes,
        *,
        is_redelivered: bool,
        recorded_id: int | None = None,
    ) -> None:
        """Add a delivery to a consumer, by the key of its content."""
        source = self.source(content, (consume.number,), is_redelivered=is_redelivered)
        cause = self._cause(source, is_redelivered=is_redelivered)
        since = [consume.ts_ns, self._delivered_ns.get(consume.number, 0), channel.last_settlement_ns]
        if cause is not None:
            since.append(cause.ts_ns)
        self._delivered_ns[consume.number] = ts_ns
        delay = (ts_ns - max(since)) / 1e9
        consume.deliveries.append(
            Answer(
                AnswerKind.COMMAND,
                self._orders,
                delay,
                command,
                recorded_id=recorded_id,
                source=source,
                cause=cause,
            )
        )

    def source(self, content: bytes, receiver: tuple[Any, ...], *, is_redelivered: bool) -> ScriptedCommand[C] | None:
        """Return the publish that a message came from: for each receiver, the nth message is the nth like publish."""
        publishes = self._published.get(content)
        if not publishes:
            return None
        place = (*receiver, content)
        number = self._claimed.get(place, 0)
        if not is_redelivered:
            self._claimed[place] = number + 1
        return publishes[min(number, len(publishes) - 1)]

    def _cause(self, source: ScriptedCommand[C] | None, *, is_redelivered: bool) -> ScriptedCommand[C] | None:
        """Return the client command that a message waits for."""
        if is_redelivered and self.returned is not None:
            return self.returned
        committed = self.committed
        if source is None or committed is None or source.number not in self._transacted:
            return source
        return committed if committed.number > source.number else source
