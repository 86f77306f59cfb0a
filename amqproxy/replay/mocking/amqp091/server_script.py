"""The server script of a recorded 0-9-1 connection."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from amqproxy.amqp091.commands import Command
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
    BasicRecover,
    BasicRecoverAsync,
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
    TxCommit,
    TxSelect,
)
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import ANSWERS, SERVER
from amqproxy.replay.content_key import content_key
from amqproxy.replay.dialogue import ConnectionSteps
from amqproxy.replay.mocking.script_reading import ChannelReading, ScriptReading
from amqproxy.replay.mocking.server_script import (
    Answer,
    AnswerKind,
    ChannelScript,
    Confirmed,
    Key,
    ScriptedCommand,
    ServerScript,
)
from amqproxy.replay.steps import CommandSent
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
"""Fields that name the objects of a command."""

SETTLEMENTS = (BasicAck, BasicNack, BasicReject)

COMMITS, RETURNS = (TxCommit,), (BasicRecover, BasicRecoverAsync, BasicNack, BasicReject)
"""Commands that release the messages of a transaction, and commands that may requeue messages."""

E = TypeVar("E")


def is_return(method: Method) -> bool:
    """Return whether a client command requeues messages."""
    return isinstance(method, RETURNS) and getattr(method, "requeue", True)


def read_script(dialogue: ConnectionSteps) -> ServerScript[Command]:
    """Read the script of a recorded connection."""
    return _Reading(ServerScript(NAME, dialogue.number, dialogue.connection), dialogue).read()


class _Channel(ChannelReading[Command]):
    """State of a recorded channel while it is read."""

    def __init__(self, script: ChannelScript[Command]) -> None:
        super().__init__(script)
        self.publishes: list[ScriptedCommand[Command]] = []


class _Reading(ScriptReading[Command, _Channel]):
    """Reader of a connection's script from its steps, and from its trace's events."""

    CHANNEL = _Channel

    def __init__(self, script: ServerScript[Command], dialogue: ConnectionSteps) -> None:
        super().__init__(script, dialogue)
        self._events = dialogue.events
        self.channels[0] = _Channel(script.connection)
        self._lives: dict[int, list[_Channel]] = {}
        """Successive channels by their number."""
        self._by_method: dict[int, ScriptedCommand[Command]] = {}
        self._blocked_after: ScriptedCommand[Command] | None = None
        self._requests = {
            id(event.reply): event.request
            for event in dialogue.events
            if isinstance(event, RequestAnswered) and event.request is not None
        }
        self._closed: dict[int, deque[ChannelClosed]] = {}
        self._returned_events: dict[int, deque[MessageReturned]] = {}
        for event in dialogue.events:
            if isinstance(event, ChannelClosed) and event.by is SERVER:
                self._closed.setdefault(event.channel, deque()).append(event)
            elif isinstance(event, MessageReturned):
                self._returned_events.setdefault(event.channel, deque()).append(event)

    def read(self) -> ServerScript[Command]:
        super().read()
        self._add_confirms()
        return self.script

    # --- the client's commands

    def take_of_client(self, step: CommandSent, method: Method) -> None:
        script, number = self.script, step.channel
        match method:
            case ConnectionStartOk():
                name = method.client_properties.get("connection_name")
                script.client_name = name if isinstance(name, str) else ""
                script.user = user_of(method)
                script.mechanism = method.mechanism
                return
            case ConnectionOpen():
                script.virtual_host = method.virtual_host
                self.latest = script.opening = ScriptedCommand(0, step.ts_ns, step.command, key_of(method))
                return
            case ChannelOpen():
                self._lives.setdefault(number, []).append(self.begin_channel(number))
                return
            case ConnectionClose() | ConnectionCloseOk():
                self.is_closed = True
                return
            case ChannelClose() | ChannelCloseOk():
                return
        if method.class_id == 10 and method.name != "connection.update-secret":
            return
        channel = self.channels.get(number) or self.begin_channel(number)
        scripted = self.add_command(channel, step.ts_ns, step.command, key_of(method))
        self._by_method[id(method)] = scripted
        if isinstance(method, BasicPublish):
            channel.publishes.append(scripted)
            self.note_publish(channel, scripted, content_key(step.command))
        elif isinstance(method, BasicConsume) and method.no_wait:
            channel.consumers[method.consumer_tag] = scripted
        elif isinstance(method, SETTLEMENTS):
            channel.last_settlement_ns = step.ts_ns
        channel.is_transacted |= isinstance(method, TxSelect)
        if isinstance(method, COMMITS):
            self.committed = scripted
        elif is_return(method):
            self.returned = scripted

    # --- the server's commands

    def take_of_server(self, step: CommandSent, method: Method) -> None:
        script, number = self.script, step.channel
        match method:
            case ConnectionStart():
                script.start = method
            case ConnectionTune():
                script.tune = method
            case ConnectionClose():
                self.is_closed = True
                if script.virtual_host is None or not self.is_open:
                    script.refused = method
                else:
                    causes = [
                        each.cause for each in self._events if isinstance(each, ConnectionClosed) and each.by is SERVER
                    ]
                    cause = causes[0] if causes else None
                    self.answer(self._caused(cause, self.latest), AnswerKind.CONNECTION_CLOSE, step.ts_ns, step.command)
            case ChannelClose():
                event = _next(self._closed, number)
                cause = None if event is None else event.cause
                found = self._caused(cause, self._last_on(number))
                self.answer(found, AnswerKind.CHANNEL_CLOSE, step.ts_ns, step.command)
            case ConnectionCloseOk() | ChannelOpenOk() | ChannelCloseOk() | BasicAck() | BasicNack():
                pass
            case BasicDeliver():
                self._take_delivery(step, method)
            case BasicReturn():
                self._take_return(step)
            case _ if method.name == "connection.open-ok":
                self.is_open = True
            case ConnectionSecure():
                script.challenges.append(method.challenge)
            case _ if method.name in ANSWERS:
                self._take_reply(step, method)
            case ConnectionBlocked():
                self._blocked_after = self.latest
                self.answer(self.latest, AnswerKind.COMMAND, step.ts_ns, step.command)
            case ConnectionUnblocked():  # commands since connection.blocked were sent before the client knew of it
                self.answer(self._blocked_after or self.latest, AnswerKind.COMMAND, step.ts_ns, step.command)
            case _:  # basic.cancel, channel.flow
                before = self._last_on(number) if number else self.latest
                self.answer(before, AnswerKind.COMMAND, step.ts_ns, step.command)

    def _last_on(self, number: int) -> ScriptedCommand[Command] | None:
        channel = self.channels.get(number)
        return None if channel is None else channel.last

    def _caused(
        self, cause: object | None, otherwise: ScriptedCommand[Command] | None
    ) -> ScriptedCommand[Command] | None:
        """Return the command that made the server close; the last one before it if the trace has no cause."""
        return otherwise if cause is None else self._by_method.get(id(cause), otherwise)

    def _take_reply(self, step: CommandSent, method: Method) -> None:
        request = self._requests.get(id(method))
        scripted = None if request is None else self._by_method.get(id(request))
        if scripted is None:
            return
        source = None
        if isinstance(method, BasicConsumeOk):
            self.channels[step.channel].consumers[method.consumer_tag] = scripted
        elif isinstance(method, BasicGetOk):
            source = self.source(content_key(step.command), ("get", step.channel), is_redelivered=method.redelivered)
        self.answer(scripted, AnswerKind.COMMAND, step.ts_ns, step.command, source)

    def _take_delivery(self, step: CommandSent, method: BasicDeliver) -> None:
        channel = self.channels.get(step.channel)
        consume = None if channel is None else channel.consumers.get(method.consumer_tag)
        if channel is not None and consume is not None:
            content = content_key(step.command)
            self.add_delivery(channel, consume, step.ts_ns, step.command, content, is_redelivered=method.redelivered)

    def _take_return(self, step: CommandSent) -> None:
        event = _next(self._returned_events, step.channel)
        channel = self.channels.get(step.channel)
        found = None
        if channel is not None and channel.publishes:
            number = None if event is None else event.number
            is_known = number is not None and number <= len(channel.publishes)
            found = channel.publishes[number - 1 if is_known and number else -1]
        self.answer(found, AnswerKind.COMMAND, step.ts_ns, step.command, found)

    def _add_confirms(self) -> None:
        """Add the confirms to the publishes to which the trace assigns them."""
        opened: dict[int, int] = {}
        for event in self._events:
            if isinstance(event, ChannelOpened):
                opened[event.channel] = opened.get(event.channel, 0) + 1
            elif isinstance(event, PublishesSettled) and event.outcome in (Settlement.CONFIRMED, Settlement.NACKED):
                channels = self._lives.get(event.channel, ())
                life = opened.get(event.channel, 1)
                if life > len(channels):
                    continue
                self._add_confirm(channels[life - 1], event)

    def _add_confirm(self, channel: _Channel, event: PublishesSettled) -> None:
        confirmed: Confirmed[Command] = Confirmed(is_nack=event.outcome is Settlement.NACKED)
        order = self.next_order()
        for span in event.spans:
            for scripted in channel.publishes[span.first - 1 : span.last]:
                delay = (event.ts_ns - scripted.ts_ns) / 1e9
                confirmed.commands.append(scripted)
                scripted.answers.append(Answer(AnswerKind.CONFIRM, order, delay, confirmed=confirmed))


def _next(events: dict[int, deque[E]], channel: int) -> E | None:
    waiting = events.get(channel)
    return waiting.popleft() if waiting else None


def key_of(method: Method) -> Key:
    """Return the key of a client command within its channel; the command must have the recorded names."""
    names = tuple(getattr(method, name, None) for name in NAMES)
    if isinstance(method, QueueDeclare | ExchangeDeclare):
        return (method.name, *names, method.passive)
    if isinstance(method, BasicCancel):
        return (method.name, method.consumer_tag)
    if isinstance(method, SETTLEMENTS):
        return (method.name, method.delivery_tag, getattr(method, "multiple", False))
    return (method.name, *names)


def described(method: Method) -> str:
    """Return a command in a few words: its method, and the names in it."""
    names = {name: value for name in (*NAMES, "consumer_tag", "delivery_tag") if (value := getattr(method, name, None))}
    return f"{method.name} {pairs(names)}".rstrip()
