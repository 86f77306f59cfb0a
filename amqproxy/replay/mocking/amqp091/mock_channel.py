"""One channel of a live client: which recorded commands its commands are, and what answers them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, Protocol

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
from amqproxy.amqp091.transitions import REPLIES
from amqproxy.replay.mocking.amqp091.server_script import (
    SETTLEMENTS,
    Answer,
    AnswerKind,
    ChannelScript,
    ScriptedCommand,
)
from amqproxy.replay.mocking.live_contents import LiveContents
from amqproxy.replay.mocking.waiting_commands import WaitingCommands
from amqproxy.replay.names import ConnectionNames
from amqproxy.rules.rewriting.name_fields import NameKind


class ChannelOwner(Protocol):
    """The connection, to which a channel says what is to be sent, and when."""

    names: ConnectionNames
    contents: LiveContents

    def send(self, command: Command) -> None:
        """Send a command of the server."""

    def close_channel(self, channel: MockChannel, command: Command) -> None:
        """Close the channel as the recorded server did."""

    def close_connection(self, command: Command) -> None:
        """Close the connection as the recorded server did."""

    def hang_up(self) -> None:
        """Close the socket without a word."""

    def later(self, when: float, order: int, channel: MockChannel, task: Task) -> None:
        """Have `channel` perform a task at that time, in the order of the recording."""


class Task(NamedTuple):
    """What is to be done later: an answer to a live command, or, without one, the next delivery of a consumer."""

    answer: Answer | None = None
    scripted: ScriptedCommand | None = None
    consumer: MockConsumer | None = None


class MockConsumer:
    """A live consumer, and what the recorded one got."""

    __slots__ = ("deliveries", "due", "is_on", "no_ack", "place", "prefetch", "since", "tag", "unacked", "waits_for")

    def __init__(self, tag: str, deliveries: list[Answer], *, no_ack: bool, prefetch: int) -> None:
        self.tag = tag
        self.deliveries = deliveries
        self.no_ack = no_ack
        self.prefetch = prefetch
        self.place = 0
        self.unacked = 0
        self.is_on = False
        self.since = 0.0
        """When the latest of what leads to the next delivery happened."""
        self.due: float | None = None
        """When it is next to be looked whether there is something to deliver."""
        self.waits_for: ScriptedCommand | None = None
        """The publish without which nothing more is delivered."""


class _Delivered(NamedTuple):
    recorded_tag: int
    consumer: MockConsumer | None


class MockChannel:
    """Plays the server's side of a recorded channel; `speed` is how many times as fast, 0 without any delay.

    `script` is None until the live client has done what shows which channel it is.
    """

    def __init__(self, number: int, owner: ChannelOwner, speed: float) -> None:
        self.number = number
        self.script: ChannelScript | None = None
        self.waiting: WaitingCommands[ScriptedCommand] = WaitingCommands([])
        self.is_over = False
        self._owner = owner
        self._speed = speed
        self._is_confirming = False
        self._published = 0
        self._unconfirmed: dict[int, int] = {}
        """Live publishes by the numbers of the recorded ones, as long as they are not confirmed."""
        self._last_tag = 0
        self._delivered: dict[int, _Delivered] = {}
        self._consumers: dict[str, MockConsumer] = {}
        self._prefetch = self._channel_prefetch = 0

    def bind(self, script: ChannelScript) -> None:
        """Play this one."""
        self.script = script
        self.waiting = WaitingCommands(script.commands)

    # --- what the client sends

    def recorded(self, live: Command) -> Command:
        """A live command with the names and the tags of the recording."""
        found = self._owner.names.recorded(live)
        method = found.method
        if isinstance(method, SETTLEMENTS):
            delivered = self._delivered.get(method.delivery_tag)
            if delivered is not None and delivered.recorded_tag != method.delivery_tag:
                return found.altered(method=msgspec.structs.replace(method, delivery_tag=delivered.recorded_tag))
        return found

    def is_unknown_tag(self, method: Method) -> bool:
        """Does the client settle what was not delivered?"""
        if not isinstance(method, SETTLEMENTS):
            return False
        if getattr(method, "multiple", False) and not method.delivery_tag:
            return False
        return method.delivery_tag not in self._delivered

    def note(self, live: Command, scripted: ScriptedCommand | None, now: float) -> None:
        """Take what the client has sent, before it is answered: what it changes on this channel."""
        method = live.method
        match method:
            case BasicPublish():
                self._published += self._is_confirming
                if scripted is not None:
                    self._owner.contents.add(scripted, live, now)
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
            case QueueDeclare() | ExchangeDeclare():
                if scripted is not None:
                    self._learn_name(scripted.command.method, method)
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
        for consumer in list(self._consumers.values()):
            consumer.since = max(consumer.since, now)
            self._go_on(consumer, now)

    def _learn_name(self, recorded: Method, live: Method) -> None:
        kind, field = (NameKind.QUEUE, "queue") if isinstance(live, QueueDeclare) else (NameKind.EXCHANGE, "exchange")
        one, other = getattr(recorded, field, ""), getattr(live, field)
        if one and other and one != other:
            self._owner.names.shared.learn(kind, one, other)

    def _add_consumer(self, method: BasicConsume, scripted: ScriptedCommand, now: float) -> None:
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
        consumer = MockConsumer(tag, scripted.deliveries, no_ack=method.no_ack, prefetch=self._prefetch)
        self._consumers[tag] = consumer
        if method.no_wait:
            self._begin(consumer, now)

    def _begin(self, consumer: MockConsumer, now: float) -> None:
        consumer.is_on = True
        consumer.since = now
        self._go_on(consumer, now)

    # --- what answers it

    def answer(self, live: Command, scripted: ScriptedCommand, now: float, *, is_repeated: bool = False) -> None:
        """Answer a live command as the recorded one was: of a repeated one, what it got as a reply or confirm."""
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
            self._later(answer.delay, now, answer.order, Task(answer, scripted))
        is_closed = any(each.kind is not AnswerKind.REPLY and each.command is not None for each in scripted.answers)
        if is_waiting and not has_reply and not is_closed and getattr(scripted.command.method, "no_wait", False):
            self._reply_as_usual(live)

    def _reply_as_usual(self, live: Command) -> None:
        """The recorded client did not wait for a reply, and this one does."""
        replies = REPLIES.get(live.method.name, ())
        if len(replies) != 1:
            return
        method: Method = BY_NAME[replies[0]]()
        if isinstance(method, QueueDeclareOk):
            method = QueueDeclareOk(live.method.queue)
        elif "consumer_tag" in method.__struct_fields__:
            method = msgspec.structs.replace(method, consumer_tag=live.method.consumer_tag)
        self._owner.send(Command(self.number, method))

    def _later(self, delay: float, now: float, order: int, task: Task) -> None:
        self._owner.later(now + (delay / self._speed if self._speed else 0.0), order, self, task)

    def perform(self, task: Task, now: float) -> None:
        """Do what was to be done at this time."""
        if task.consumer is not None:
            task.consumer.due = None
            self._go_on(task.consumer, now)
            return
        answer, scripted = task.answer, task.scripted
        assert answer is not None
        assert scripted is not None
        if answer.kind is AnswerKind.CONFIRM:
            self._confirm(answer, scripted)
        elif answer.kind is AnswerKind.HANG_UP:
            self._owner.hang_up()
        elif answer.command is not None:
            command = self._owner.names.live(answer.command)
            if answer.kind is AnswerKind.CHANNEL_CLOSE:
                self._owner.close_channel(self, command)
            elif answer.kind is AnswerKind.CONNECTION_CLOSE:
                self._owner.close_connection(command)
            else:
                self._reply(command, answer, scripted, now)

    def _reply(self, command: Command, answer: Answer, scripted: ScriptedCommand, now: float) -> None:
        method = command.method
        if answer.source is not None:
            command = self._owner.contents.with_live_content(command, answer.source)
        command = _on_channel(command, self.number)
        if isinstance(method, BasicGetOk):
            get = scripted.command.method
            command = self._tagged(command, None, is_kept=not (isinstance(get, BasicGet) and get.no_ack))
        self._owner.send(command)
        if isinstance(method, BasicConsumeOk):
            consumer = self._consumers.get(method.consumer_tag)
            if consumer is not None and not consumer.is_on:
                self._begin(consumer, now)

    def _confirm(self, answer: Answer, scripted: ScriptedCommand) -> None:
        """Confirm a publish, and with it those that the recorded confirm was of, as far as they have come."""
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

    def _go_on(self, consumer: MockConsumer, now: float) -> None:
        """Deliver what a consumer may have now, and come back when it may have the next."""
        while consumer.is_on and consumer.place < len(consumer.deliveries) and not self.is_over:
            delivery = consumer.deliveries[consumer.place]
            since = consumer.since
            if delivery.source is not None:
                published = self._owner.contents.when(delivery.source)
                if published is None:
                    if consumer.waits_for is not delivery.source:
                        consumer.waits_for = delivery.source
                        self._owner.contents.wait(delivery.source, partial(self._go_on, consumer))
                    return
                since = max(since, published)
            if not consumer.no_ack and (
                0 < consumer.prefetch <= consumer.unacked or 0 < self._channel_prefetch <= self._unacked()
            ):
                return
            due = since + (delivery.delay / self._speed if self._speed else 0.0)
            if now < due:
                if consumer.due is None or due < consumer.due:
                    consumer.due = due
                    self._owner.later(due, delivery.order, self, Task(consumer=consumer))
                return
            consumer.place += 1
            consumer.since = due
            self._deliver(delivery, consumer)

    def _unacked(self) -> int:
        return sum(each.consumer is not None for each in self._delivered.values())

    def _deliver(self, delivery: Answer, consumer: MockConsumer) -> None:
        assert delivery.command is not None
        command = self._owner.names.live(delivery.command)
        if delivery.source is not None:
            command = self._owner.contents.with_live_content(command, delivery.source)
        command = _on_channel(command, self.number)
        command = command.altered(method=msgspec.structs.replace(command.method, consumer_tag=consumer.tag))
        self._owner.send(self._tagged(command, consumer, is_kept=not consumer.no_ack))

    def _tagged(self, command: Command, consumer: MockConsumer | None, *, is_kept: bool) -> Command:
        """The delivery with the tag that is next here."""
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
    """The command on the live channel, unless it is the connection's own, such as connection.blocked."""
    if command.channel in (0, number):
        return command
    return Command(number, command.method, command.properties, command.body)
