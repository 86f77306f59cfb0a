"""One channel of a live 0-9-1 client: the answers to its commands, and its deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ConfirmSelect,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import REPLIES
from amqproxy.replay.mocking.amqp091.server_script import COMMITS, SETTLEMENTS, is_return
from amqproxy.replay.mocking.mock_channel import ChannelOwner, MockChannel, MockConsumer, Task
from amqproxy.replay.mocking.server_script import Answer, AnswerKind, ScriptedCommand


class _Consumer(MockConsumer):
    """A live consumer, with its prefetch limit."""

    __slots__ = ("no_ack", "prefetch", "unacked")

    def __init__(self, tag: str, deliveries: list[Answer[Command]], *, no_ack: bool, prefetch: int) -> None:
        super().__init__(tag, deliveries)
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.unacked = 0


class _Delivered(NamedTuple):
    recorded_tag: int
    consumer: _Consumer | None


class Amqp091ChannelOwner(ChannelOwner[Command], Protocol):
    """The connection of a channel, which also closes the channel for it."""

    def close_channel(self, channel: Amqp091MockChannel, close: Method) -> None:
        """Close the channel with the recorded server's channel.close."""


class Amqp091MockChannel(MockChannel[Command]):
    """The server's side of a recorded channel."""

    _owner: Amqp091ChannelOwner

    def __init__(self, number: int, owner: Amqp091ChannelOwner, speed: float) -> None:
        super().__init__(number, owner, speed)
        self._is_confirming = False
        self._published = 0
        self._unconfirmed: dict[int, int] = {}
        """Unconfirmed live publish numbers, by those of the recorded commands."""
        self._last_tag = 0
        self._delivered: dict[int, _Delivered] = {}
        self._prefetch = self._channel_prefetch = 0

    # --- the client's commands

    def receive(self, live: Command) -> Command:
        found = self._owner.names.recorded(live)
        method = found.method
        if isinstance(method, SETTLEMENTS):
            delivered = self._delivered.get(method.delivery_tag)
            if delivered is not None and delivered.recorded_tag != method.delivery_tag:
                return found.altered(method=msgspec.structs.replace(method, delivery_tag=delivered.recorded_tag))
        return found

    def mistake(self, live: Command) -> str:
        method = live.method
        if not isinstance(method, SETTLEMENTS) or method.delivery_tag in self._delivered:
            return ""
        is_of_all = getattr(method, "multiple", False) and not method.delivery_tag
        return "" if is_of_all else f"unknown delivery tag {method.delivery_tag}"

    def note(
        self,
        live: Command,
        scripted: ScriptedCommand[Command] | None,
        used: ScriptedCommand[Command] | None,
        now: float,
    ) -> None:
        method = live.method
        if isinstance(method, COMMITS) or is_return(method):
            self._note_cause(scripted, now, is_return=is_return(method))
        match method:
            case BasicPublish():
                self._published += self._is_confirming
                if scripted is not None:
                    recorded = scripted.command
                    contents = (live.properties, live.body), (recorded.properties, recorded.body)
                    self._owner.contents.add(scripted, *contents, now)
                    if self._is_confirming:
                        self._unconfirmed[scripted.number] = self._published
            case ConfirmSelect():
                self._is_confirming = True
            case BasicQos():
                if method.global_:
                    self._channel_prefetch = method.prefetch_count
                else:
                    self._prefetch = method.prefetch_count
            case BasicConsume():
                if scripted is not None:
                    self._add_consumer(method, scripted, now)
            case BasicCancel():
                cancelled = self._consumers.pop(method.consumer_tag, None)
                if cancelled is not None:
                    cancelled.is_on = False
            case QueueDeclare() | ExchangeDeclare() if scripted is not None:
                self._learn_declared(scripted.command.method, method)
            case BasicRecover() | BasicRecoverAsync():
                self._settle(list(self._delivered), now)
            case _ if isinstance(method, SETTLEMENTS):
                self._settle(list(self._settled(method)), now)

    def _settled(self, method: BasicAck | BasicNack | BasicReject) -> Iterator[int]:
        tag = method.delivery_tag
        if not getattr(method, "multiple", False):
            return iter((tag,))
        return iter([each for each in self._delivered if not tag or each <= tag])

    def _settle(self, tags: list[int], now: float) -> None:
        for tag in tags:
            delivered = self._delivered.pop(tag, None)
            if delivered is not None and delivered.consumer is not None:
                delivered.consumer.unacked -= 1
        self._go_on_with_all(now)

    def _add_consumer(self, method: BasicConsume, scripted: ScriptedCommand[Command], now: float) -> None:
        replies = (each.command.method for each in scripted.answers if each.command is not None)
        recorded_tag = next(
            (each.consumer_tag for each in replies if isinstance(each, BasicConsumeOk)),
            scripted.command.method.consumer_tag,
        )
        tag = method.consumer_tag or recorded_tag
        while tag in self._consumers:
            tag += "-"
        if tag != recorded_tag:
            self._owner.names.learn_consumer_tag(self.number, recorded_tag, tag)
        consumer = _Consumer(tag, scripted.deliveries, no_ack=method.no_ack, prefetch=self._prefetch)
        self._consumers[tag] = consumer
        if method.no_wait:
            self._begin(consumer, now)

    def _begin(self, consumer: _Consumer, now: float) -> None:
        consumer.is_on = True
        consumer.since = now
        self._go_on(consumer, now)

    # --- answers

    def answer(
        self, live: Command, scripted: ScriptedCommand[Command] | None, now: float, *, is_repeated: bool = False
    ) -> None:
        if scripted is None:
            return
        is_waiting = not getattr(live.method, "no_wait", False)
        has_reply = False
        if is_repeated and isinstance(live.method, BasicGet):
            self._owner.send(Command(self.number, BasicGetEmpty()))
            return
        for answer in scripted.answers:
            is_reply = answer.command is not None and answer.command.method.name in REPLIES.get(live.method.name, ())
            if is_reply:
                has_reply = True
                if not is_waiting:
                    continue
            elif is_repeated and answer.kind is not AnswerKind.CONFIRM:
                continue
            if is_repeated and answer.kind is AnswerKind.CONFIRM:
                self._unconfirmed[scripted.number] = self._published
            self._later(answer, scripted, now)
        is_closed = any(each.kind is not AnswerKind.COMMAND and each.command is not None for each in scripted.answers)
        if is_waiting and not has_reply and not is_closed and getattr(scripted.command.method, "no_wait", False):
            self._reply_as_usual(live)

    def _reply_as_usual(self, live: Command) -> None:
        """Send the usual reply to a client that waits for one, where the recorded one set no-wait."""
        replies = REPLIES.get(live.method.name, ())
        if len(replies) != 1:
            return
        method: Method = BY_NAME[replies[0]]()
        if isinstance(method, QueueDeclareOk):
            method = QueueDeclareOk(live.method.queue)
        elif "consumer_tag" in method.__struct_fields__:
            method = msgspec.structs.replace(method, consumer_tag=live.method.consumer_tag)
        self._owner.send(Command(self.number, method))

    def _answer_now(self, answer: Answer[Command], task: Task, now: float) -> None:
        scripted = task.scripted
        assert scripted is not None
        if answer.kind is AnswerKind.CONFIRM:
            self._confirm(answer, scripted)
        elif answer.command is not None:
            command = self._owner.names.live(answer.command)
            if answer.kind is AnswerKind.CHANNEL_CLOSE:
                self._owner.close_channel(self, command.method)
            elif answer.kind is AnswerKind.CONNECTION_CLOSE:
                self._owner.close_connection(command.method)
            else:
                self._reply(command, answer, scripted, now)

    def _reply(self, command: Command, answer: Answer[Command], scripted: ScriptedCommand[Command], now: float) -> None:
        method = command.method
        if answer.source is not None:
            command = self._with_live_content(command, answer.source)
        command = _on_channel(command, self.number)
        if isinstance(method, BasicGetOk):
            get = scripted.command.method
            command = self._tagged(command, None, is_kept=not (isinstance(get, BasicGet) and get.no_ack))
        self._owner.send(command)
        if isinstance(method, BasicConsumeOk):
            consumer = self._consumers.get(method.consumer_tag)
            if consumer is not None and not consumer.is_on:
                self._begin(consumer, now)

    def _confirm(self, answer: Answer[Command], scripted: ScriptedCommand[Command]) -> None:
        """Confirm a publish, together with those of the same recorded confirm that have been received."""
        group = answer.confirmed
        assert group is not None
        if scripted.number not in self._unconfirmed:
            return
        numbers = [each.number for each in group.commands if each.number in self._unconfirmed]
        tags = sorted(self._unconfirmed.pop(number) for number in numbers)
        is_multiple = len(tags) > 1 and not any(tag <= tags[-1] for tag in self._unconfirmed.values())
        for tag in tags[-1:] if is_multiple else tags:
            confirm = BasicNack(tag, is_multiple, True) if group.is_nack else BasicAck(tag, is_multiple)
            self._owner.send(Command(self.number, confirm))

    def _is_return(self, scripted: ScriptedCommand[Command]) -> bool:
        return is_return(scripted.command.method)

    def _unacked(self) -> int:
        return sum(each.consumer is not None for each in self._delivered.values())

    def _deliver(self, delivery: Answer[Command], consumer: _Consumer) -> bool:
        if not consumer.no_ack and (
            0 < consumer.prefetch <= consumer.unacked or 0 < self._channel_prefetch <= self._unacked()
        ):
            return False
        assert delivery.command is not None
        command = self._owner.names.live(delivery.command)
        if delivery.source is not None:
            command = self._with_live_content(command, delivery.source)
        command = _on_channel(command, self.number)
        command = command.altered(method=msgspec.structs.replace(command.method, consumer_tag=consumer.tag))
        self._owner.send(self._tagged(command, consumer, is_kept=not consumer.no_ack))
        return True

    def _with_live_content(self, command: Command, source: ScriptedCommand[Command]) -> Command:
        """Return a recorded message from the publish `source`, with the content that was published live instead."""
        live = self._owner.contents.other_content(source)
        if live is None:
            return command
        properties, body = live
        published, delivered = source.command.properties, command.properties
        fields: dict[str, Any] = {}
        for name in Properties.__struct_fields__:
            value = getattr(delivered, name)
            fields[name] = getattr(properties, name) if value == getattr(published, name) else value
        is_same_body = command.body == source.command.body
        return Command(command.channel, command.method, Properties(**fields), body if is_same_body else command.body)

    def _tagged(self, command: Command, consumer: _Consumer | None, *, is_kept: bool) -> Command:
        """Return the message with the next delivery tag; remember it if it `is_kept` for a settlement."""
        method = command.method
        self._last_tag += 1
        if is_kept:
            self._delivered[self._last_tag] = _Delivered(method.delivery_tag, consumer)
            if consumer is not None:
                consumer.unacked += 1
        if method.delivery_tag == self._last_tag:
            return command
        return command.altered(method=msgspec.structs.replace(method, delivery_tag=self._last_tag))


def _on_channel(command: Command, number: int) -> Command:
    """Return the command on the live channel; a channel 0 command, such as connection.blocked, unchanged."""
    if command.channel in (0, number):
        return command
    return Command(number, command.method, command.properties, command.body)
