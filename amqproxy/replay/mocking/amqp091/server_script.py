"""What the server of a recorded connection answered to what, so that it can be played again to another client."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from functools import cached_property
from typing import Any, TypeVar

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionSecure,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionUnblocked,
    ExchangeDeclare,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, SERVER
from amqproxy.replay.content_key import content_key
from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.command_key import Key, shape_of_key
from amqproxy.replay.steps import BytesLost, BytesSent, CommandSent, ConnectionEnded
from amqproxy.taps.text import pairs
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    Settlement,
)

NAMES = ("queue", "exchange", "routing_key", "destination", "source")
"""Fields that say what a command is about."""

SETTLEMENTS = (BasicAck, BasicNack, BasicReject)

E = TypeVar("E")


class AnswerKind(Enum):
    """How an answer goes out."""

    REPLY = auto()
    """As it is: a reply, a return, a method that the server sent unasked."""
    CONFIRM = auto()
    """A publisher confirm, whose tag is that of the live publish."""
    CHANNEL_CLOSE = auto()
    CONNECTION_CLOSE = auto()
    HANG_UP = auto()
    """The server closed the socket."""


class Confirmed:
    """Publishes that one basic.ack or basic.nack of the recording settled."""

    __slots__ = ("commands", "is_nack")

    def __init__(self, *, is_nack: bool) -> None:
        self.is_nack = is_nack
        self.commands: list[ScriptedCommand] = []


class Answer:
    """What the server sent `delay` seconds after a command of the client: `command`, or a confirm of publishes.

    `order` numbers what the server did. Of a content, `source` is the client's publish that it came from, if it was on
    the same connection.
    """

    __slots__ = ("command", "confirmed", "delay", "kind", "order", "source")

    def __init__(
        self,
        kind: AnswerKind,
        order: int,
        delay: float,
        command: Command | None = None,
        *,
        confirmed: Confirmed | None = None,
        source: ScriptedCommand | None = None,
    ) -> None:
        self.kind = kind
        self.order = order
        self.delay = max(0.0, delay)
        self.command = command
        self.confirmed = confirmed
        self.source = source


class ScriptedCommand:
    """A command of the recorded client, and what the server answered. `number` is its place among all of them."""

    __slots__ = ("answers", "command", "deliveries", "key", "number", "ts_ns")

    def __init__(self, number: int, ts_ns: int, command: Command) -> None:
        self.number = number
        self.ts_ns = ts_ns
        self.command = command
        self.key = key_of(command.method)
        self.answers: list[Answer] = []
        self.deliveries: list[Answer] = []
        """Of a basic.consume: what the consumer got, each with its delay since the latest of what led to it."""


class ChannelScript:
    """One channel: what the client did on it, in order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.commands: list[ScriptedCommand] = []
        self.publishes: list[ScriptedCommand] = []
        self.consumers: dict[str, ScriptedCommand] = {}
        self.last_settlement_ns = 0

    @cached_property
    def shapes(self) -> frozenset[Key]:
        """What its commands are known by, without what was generated in names."""
        return frozenset(shape_of_key(each.key) for each in self.commands)


class Amqp091ServerScript:
    """One recorded connection.

    `channels` are in the order in which they were opened; `connection` is channel 0. `refused` is the close with which
    the server answered before the connection was open; `opening` is connection.open, with what the server sent unasked
    before the client did anything else. `mechanism` is that of the login, `challenges` what the server asked in it.
    """

    def __init__(self, dialogue: ConnectionSteps) -> None:
        self.stream = dialogue.number
        self.name_of_ends = dialogue.connection
        self.client_name = self.user = self.mechanism = ""
        self.challenges: list[bytes] = []
        self.virtual_host: str | None = None
        self.start: ConnectionStart | None = None
        self.tune: ConnectionTune | None = None
        self.refused: ConnectionClose | None = None
        self.opening: ScriptedCommand | None = None
        self.connection = ChannelScript(0)
        self.channels: list[ChannelScript] = []
        _Reading(self, dialogue).read()

    @property
    def commands(self) -> Iterator[ScriptedCommand]:
        """All that the client did, by channel."""
        for channel in (self.connection, *self.channels):
            yield from channel.commands


class _Reading:
    """Makes the script of a connection from its steps, and from what the trace says about them."""

    def __init__(self, script: Amqp091ServerScript, dialogue: ConnectionSteps) -> None:
        self._script = script
        self._dialogue = dialogue
        self._open: dict[int, ChannelScript] = {0: script.connection}
        self._by_method: dict[int, ScriptedCommand] = {}
        self._last: dict[int, ScriptedCommand] = {}
        self._latest: ScriptedCommand | None = None
        self._blocked_after: ScriptedCommand | None = None
        self._is_open = False
        self._is_closed = False
        self._numbers = 0
        self._orders = 0
        self._published: dict[bytes, list[ScriptedCommand]] = {}
        self._claimed: dict[tuple[Any, ...], int] = {}
        self._delivered_ns: dict[int, int] = {}
        self._requests = {
            id(event.reply): event.request
            for event in dialogue.events
            if isinstance(event, RequestAnswered) and event.request is not None
        }
        self._closed: dict[int, deque[ChannelClosed]] = {}
        self._returned: dict[int, deque[MessageReturned]] = {}
        for event in dialogue.events:
            if isinstance(event, ChannelClosed) and event.by is SERVER:
                self._closed.setdefault(event.channel, deque()).append(event)
            elif isinstance(event, MessageReturned):
                self._returned.setdefault(event.channel, deque()).append(event)

    def read(self) -> None:
        lives: dict[int, list[ChannelScript]] = {}
        for step in self._dialogue.steps:
            if isinstance(step, CommandSent):
                try:
                    method = step.command.method
                    _ = step.command.header
                except ProtocolError:
                    continue
                if step.sender is CLIENT:
                    self._take_of_client(step, method)
                else:
                    self._take_of_server(step, method)
                if isinstance(method, ChannelOpen) and step.sender is CLIENT:
                    lives.setdefault(step.channel, []).append(self._open[step.channel])
            elif isinstance(step, ConnectionEnded):
                if step.by is SERVER and not self._is_closed:
                    self._answer(self._latest, AnswerKind.HANG_UP, step.ts_ns)
            elif not isinstance(step, BytesSent | BytesLost):
                continue
        self._add_confirms(lives)

    # --- what the client sent

    def _take_of_client(self, step: CommandSent, method: Method) -> None:
        script, number = self._script, step.channel
        match method:
            case ConnectionStartOk():
                name = method.client_properties.get("connection_name")
                script.client_name = name if isinstance(name, str) else ""
                script.user = user_of(method)
                script.mechanism = method.mechanism
                return
            case ConnectionOpen():
                script.virtual_host = method.virtual_host
                self._latest = script.opening = ScriptedCommand(0, step.ts_ns, step.command)
                return
            case ChannelOpen():
                self._begin_channel(number)
                return
            case ConnectionClose() | ConnectionCloseOk():
                self._is_closed = True
                return
            case ChannelClose() | ChannelCloseOk():
                return
        if method.class_id == 10 and method.name != "connection.update-secret":
            return
        channel = self._open.get(number) or self._begin_channel(number)
        self._numbers += 1
        scripted = ScriptedCommand(self._numbers, step.ts_ns, step.command)
        channel.commands.append(scripted)
        self._last[number] = self._latest = scripted
        self._by_method[id(method)] = scripted
        if isinstance(method, BasicPublish):
            channel.publishes.append(scripted)
            self._published.setdefault(content_key(step.command), []).append(scripted)
        elif isinstance(method, BasicConsume) and method.no_wait:
            channel.consumers[method.consumer_tag] = scripted
        elif isinstance(method, SETTLEMENTS):
            channel.last_settlement_ns = step.ts_ns

    def _begin_channel(self, number: int) -> ChannelScript:
        channel = self._open[number] = ChannelScript(number)
        self._script.channels.append(channel)
        self._last.pop(number, None)
        return channel

    # --- what the server sent

    def _take_of_server(self, step: CommandSent, method: Method) -> None:
        script, number = self._script, step.channel
        self._orders += 1
        match method:
            case ConnectionStart():
                script.start = method
            case ConnectionTune():
                script.tune = method
            case ConnectionClose():
                self._is_closed = True
                if script.virtual_host is None or not self._is_open:
                    script.refused = method
                else:
                    events = self._dialogue.events
                    causes = [each.cause for each in events if isinstance(each, ConnectionClosed) and each.by is SERVER]
                    cause = causes[0] if causes else None
                    self._answer(
                        self._caused(cause, self._latest), AnswerKind.CONNECTION_CLOSE, step.ts_ns, step.command
                    )
            case ChannelClose():
                event = _next(self._closed, number)
                cause = None if event is None else event.cause
                found = self._caused(cause, self._last.get(number))
                self._answer(found, AnswerKind.CHANNEL_CLOSE, step.ts_ns, step.command)
            case ConnectionCloseOk() | ChannelOpenOk() | ChannelCloseOk() | BasicAck() | BasicNack():
                pass
            case BasicDeliver():
                self._take_delivery(step, method)
            case BasicReturn():
                self._take_return(step)
            case _ if method.name == "connection.open-ok":
                self._is_open = True
            case ConnectionSecure():
                script.challenges.append(method.challenge)
            case _ if method.name in ANSWERS:
                self._take_reply(step, method)
            case ConnectionBlocked():
                self._blocked_after = self._latest
                self._answer(self._latest, AnswerKind.REPLY, step.ts_ns, step.command)
            case ConnectionUnblocked():  # what the client has sent since then, it did while it did not know
                self._answer(self._blocked_after or self._latest, AnswerKind.REPLY, step.ts_ns, step.command)
            case _:  # basic.cancel, channel.flow
                before = self._last.get(number) if number else self._latest
                self._answer(before, AnswerKind.REPLY, step.ts_ns, step.command)

    def _caused(self, cause: object | None, otherwise: ScriptedCommand | None) -> ScriptedCommand | None:
        """The command that the server closed for: if the trace does not know it, the last one before."""
        return otherwise if cause is None else self._by_method.get(id(cause), otherwise)

    def _answer(
        self,
        to: ScriptedCommand | None,
        kind: AnswerKind,
        ts_ns: int,
        command: Command | None = None,
        source: ScriptedCommand | None = None,
    ) -> None:
        if to is not None:  # else it answers what was not captured
            delay = (ts_ns - to.ts_ns) / 1e9
            to.answers.append(Answer(kind, self._orders, delay, command, source=source))

    def _take_reply(self, step: CommandSent, method: Method) -> None:
        request = self._requests.get(id(method))
        scripted = None if request is None else self._by_method.get(id(request))
        if scripted is None:
            return
        source = None
        if isinstance(method, BasicConsumeOk):
            self._open[step.channel].consumers[method.consumer_tag] = scripted
        elif isinstance(method, BasicGetOk):
            source = self._source(step.command, ("get", step.channel))
        self._answer(scripted, AnswerKind.REPLY, step.ts_ns, step.command, source)

    def _take_delivery(self, step: CommandSent, method: BasicDeliver) -> None:
        channel = self._open.get(step.channel)
        consume = None if channel is None else channel.consumers.get(method.consumer_tag)
        if channel is None or consume is None:
            return
        source = self._source(step.command, ("consumer", consume.number))
        since = [consume.ts_ns, self._delivered_ns.get(consume.number, 0), channel.last_settlement_ns]
        if source is not None:
            since.append(source.ts_ns)
        self._delivered_ns[consume.number] = step.ts_ns
        delay = (step.ts_ns - max(since)) / 1e9
        consume.deliveries.append(Answer(AnswerKind.REPLY, self._orders, delay, step.command, source=source))

    def _source(self, delivered: Command, receiver: tuple[Any, ...]) -> ScriptedCommand | None:
        """The publish that a delivered message came from: for each receiver, the nth that is alike of the nth."""
        key = content_key(delivered)
        publishes = self._published.get(key)
        if not publishes:
            return None
        place = (*receiver, key)
        number = self._claimed.get(place, 0)
        if not delivered.method.redelivered:
            self._claimed[place] = number + 1
        return publishes[min(number, len(publishes) - 1)]

    def _take_return(self, step: CommandSent) -> None:
        event = _next(self._returned, step.channel)
        channel = self._open.get(step.channel)
        found = None
        if channel is not None and channel.publishes:
            number = None if event is None else event.number
            is_known = number is not None and number <= len(channel.publishes)
            found = channel.publishes[number - 1 if is_known and number else -1]
        self._answer(found, AnswerKind.REPLY, step.ts_ns, step.command, found)

    def _add_confirms(self, lives: dict[int, list[ChannelScript]]) -> None:
        """Add the confirms, as the trace tells which publishes they are of."""
        opened: dict[int, int] = {}
        for event in self._dialogue.events:
            if isinstance(event, ChannelOpened):
                opened[event.channel] = opened.get(event.channel, 0) + 1
            elif isinstance(event, PublishesSettled) and event.outcome in (Settlement.CONFIRMED, Settlement.NACKED):
                channels = lives.get(event.channel, ())
                life = opened.get(event.channel, 1)
                if life > len(channels):
                    continue
                self._add_confirm(channels[life - 1], event)

    def _add_confirm(self, channel: ChannelScript, event: PublishesSettled) -> None:
        confirmed = Confirmed(is_nack=event.outcome is Settlement.NACKED)
        self._orders += 1
        for span in event.spans:
            for scripted in channel.publishes[span.first - 1 : span.last]:
                delay = (event.ts_ns - scripted.ts_ns) / 1e9
                confirmed.commands.append(scripted)
                scripted.answers.append(Answer(AnswerKind.CONFIRM, self._orders, delay, confirmed=confirmed))


def _next(events: dict[int, deque[E]], channel: int) -> E | None:
    waiting = events.get(channel)
    return waiting.popleft() if waiting else None


def key_of(method: Method) -> Key:
    """What a command of a client is known by, among those of its channel; it must have the names of the recording."""
    names = tuple(getattr(method, name, None) for name in NAMES)
    if isinstance(method, QueueDeclare | ExchangeDeclare):
        return (method.name, *names, method.passive)
    if isinstance(method, BasicCancel):
        return (method.name, method.consumer_tag)
    if isinstance(method, SETTLEMENTS):
        return (method.name, method.delivery_tag, getattr(method, "multiple", False))
    return (method.name, *names)


def is_same(recorded: Command, live: Command) -> bool:
    """Return whether two commands are the same, with their contents."""
    return bool(
        recorded.method == live.method
        and recorded.body_size == live.body_size
        and recorded.header == live.header
        and recorded.body == live.body
    )


def described(method: Method) -> str:
    """Return a command in a few words: its method, and the names in it."""
    names = {name: value for name in (*NAMES, "consumer_tag", "delivery_tag") if (value := getattr(method, name, None))}
    return f"{method.name} {pairs(names)}".rstrip()
