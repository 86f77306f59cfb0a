"""The server's side of one recorded channel or session, played to a live client: the part that all protocols share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol

from amqproxy.replay.mocking.live_contents import LiveContents
from amqproxy.replay.mocking.server_script import Answer, AnswerKind, C, ChannelScript, ScriptedCommand
from amqproxy.replay.mocking.waiting_commands import WaitingCommands
from amqproxy.replay.names import ConnectionNames
from amqproxy.rules.rewriting.name_fields import NameKind

_DECLARED = {"queue.declare": NameKind.QUEUE, "exchange.declare": NameKind.EXCHANGE}


class ChannelOwner(Protocol[C]):
    """The connection of a channel, which sends and keeps time for it."""

    names: ConnectionNames
    contents: LiveContents

    def send(self, command: C) -> None:
        """Send a command of the server."""

    def close_connection(self, close: Any) -> None:
        """Close the connection with the recorded server's method."""

    def hang_up(self) -> None:
        """Close the socket without closing the connection."""

    def later(self, when: float, order: int, channel: MockChannel[C], task: Task) -> None:
        """Schedule a call of `channel.perform` with a task, in the recorded order of tasks of the same time."""


class Task(NamedTuple):
    """A scheduled task: an answer to a live command, or without one the next delivery to a consumer.

    `live_id` is the id of the live command, if the protocol numbers commands.
    """

    answer: Answer[Any] | None = None
    scripted: ScriptedCommand[Any] | None = None
    live_id: int = 0
    consumer: MockConsumer | None = None


class MockConsumer:
    """A live consumer or subscription with the messages of the recorded one."""

    __slots__ = ("deliveries", "due", "is_on", "place", "since", "tag", "waits_for")

    def __init__(self, tag: str, deliveries: list[Answer[Any]]) -> None:
        self.tag = tag
        self.deliveries = deliveries
        self.place = 0
        self.is_on = False
        self.since = 0.0
        """Time of the latest event that leads to the next delivery."""
        self.due: float | None = None
        """Time of the next scheduled delivery."""
        self.waits_for: ScriptedCommand[Any] | None = None
        """The client command that the next delivery waits for."""


class MockChannel(ABC, Generic[C]):
    """The server's side of a recorded channel; `speed` is a factor, 0 for no delays.

    `script` is None until a command of the live client identifies the recorded channel. `has_news` asks for `announce`
    once all received commands have been processed.
    """

    has_news = False

    def __init__(self, number: int, owner: ChannelOwner[C], speed: float) -> None:
        self.number = number
        self.script: ChannelScript[C] | None = None
        self.waiting: WaitingCommands[C] = WaitingCommands([])
        self.is_over = False
        self._owner = owner
        self._speed = speed
        self._consumers: dict[str, Any] = {}

    def bind(self, script: ChannelScript[C]) -> None:
        """Begin to play a script."""
        self.script = script
        self.waiting = WaitingCommands(script.commands)

    # --- the protocol's part

    @abstractmethod
    def receive(self, live: C) -> C:
        """Take a command of the client; return it with the recorded names and tags."""

    def mistake(self, live: C) -> str:
        """Return why a command is wrong whatever the recording has; "" if it is not. Called before `note`."""
        return ""

    @abstractmethod
    def note(self, live: C, scripted: ScriptedCommand[C] | None, used: ScriptedCommand[C] | None, now: float) -> None:
        """Note how a client command changes the channel, before it is answered.

        `scripted` is the recorded command that it stands for; without one, `used` is a like one that was played before.
        """

    @abstractmethod
    def answer(self, live: C, scripted: ScriptedCommand[C] | None, now: float, *, is_repeated: bool = False) -> None:
        """Answer a client command as the recorded one was; a repeated one only with the answers that each sender needs.

        `scripted` is None for commands that depend on the run, such as settlements.
        """

    @abstractmethod
    def _answer_now(self, answer: Answer[C], task: Task, now: float) -> None:
        """Send an answer that is due."""

    @abstractmethod
    def _deliver(self, delivery: Answer[C], consumer: Any) -> bool:
        """Send a recorded message; return False if the client's credit or prefetch does not allow it now."""

    def announce(self) -> None:
        """Send deferred commands once all received ones have been processed."""

    # --- answers and deliveries

    def perform(self, task: Task, now: float) -> None:
        """Perform a task whose time has come."""
        if task.consumer is not None:
            task.consumer.due = None
            self._go_on(task.consumer, now)
        elif task.answer is not None and task.answer.kind is AnswerKind.HANG_UP:
            self._owner.hang_up()
        elif task.answer is not None:
            self._answer_now(task.answer, task, now)

    def _later(self, answer: Answer[C], scripted: ScriptedCommand[C], now: float, live_id: int = 0) -> None:
        self._owner.later(now + self._scaled(answer.delay), answer.order, self, Task(answer, scripted, live_id))

    def _scaled(self, delay: float) -> float:
        return delay / self._speed if self._speed else 0.0

    def _note_cause(self, scripted: ScriptedCommand[C] | None, now: float, *, is_return: bool) -> None:
        """Note a commit or a requeue, which messages may wait for.

        A requeue that is not in the recording stands for the next one that a consumer waits for, so that requeued
        messages are delivered again.
        """
        if scripted is not None:
            self._owner.contents.note(scripted, now)
        elif is_return:
            waiting = [each.waits_for for each in self._consumers.values() if each.waits_for is not None]
            returns = [each for each in waiting if self._owner.contents.when(each) is None and self._is_return(each)]
            if returns:
                self._owner.contents.note(min(returns, key=lambda each: each.number), now)

    @abstractmethod
    def _is_return(self, scripted: ScriptedCommand[C]) -> bool:
        """Return whether a recorded command requeues messages."""

    def _learn_declared(self, recorded: Any, live: Any) -> None:
        """Map the name in a recorded queue.declare or exchange.declare to that of the live one."""
        kind = _DECLARED.get(live.name)
        if kind is not None:
            before, now = getattr(recorded, kind.value, None), getattr(live, kind.value)
            if before and now and before != now:
                self._owner.names.shared.learn(kind, before, now)

    def _go_on_with_all(self, now: float) -> None:
        for each in list(self._consumers.values()):
            each.since = max(each.since, now)
            self._go_on(each, now)

    def _go_on(self, consumer: MockConsumer, now: float) -> None:
        """Deliver all messages that are due to a consumer, and schedule the next one."""
        while consumer.is_on and consumer.place < len(consumer.deliveries) and not self.is_over:
            delivery = consumer.deliveries[consumer.place]
            since = consumer.since
            if delivery.cause is not None:
                happened = self._owner.contents.when(delivery.cause)
                if happened is None:
                    if consumer.waits_for is not delivery.cause:
                        consumer.waits_for = delivery.cause
                        self._owner.contents.wait(delivery.cause, partial(self._go_on, consumer))
                    return
                since = max(since, happened)
            due = since + self._scaled(delivery.delay)
            if now < due:
                if consumer.due is None or due < consumer.due:
                    consumer.due = due
                    self._owner.later(due, delivery.order, self, Task(consumer=consumer))
                return
            if not self._deliver(delivery, consumer):
                return
            consumer.place += 1
            consumer.since = due
