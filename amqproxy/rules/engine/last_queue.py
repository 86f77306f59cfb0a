"""Which queue a client means that names none: the one that it has declared last on the channel. Section 1.7.2.1."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.rules.matching.operations import spellings

MAY_LEAVE_QUEUE_OUT = frozenset(
    method.index for method in (BasicConsume, BasicGet, QueueBind, QueueDelete, QueuePurge, QueueUnbind)
)
"""The methods in which an empty name is the last queue's."""

MADE_BY_BROKER = "amq.gen-"
"""The prefix of names that stand for a queue whose name the broker has not sent yet."""


class LastQueues:
    """The last queues of a session's channels, by the names that the client knows."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def note(self, channel: int, declare: QueueDeclare) -> None:
        """The client has declared it there, if only passively; RabbitMQ drops line breaks from its name."""
        self._names[channel] = spellings(declare.queue)[-1] or MADE_BY_BROKER

    def name(self, channel: int, name: str) -> None:
        """The broker has answered with the name of a queue."""
        if self._names.get(channel) == MADE_BY_BROKER:
            self._names[channel] = name

    def forget(self, channel: int) -> None:
        self._names.pop(channel, None)

    def concerns(self, command: Command) -> bool:
        """Does it depend on the last queue what the command means, or the other way round?"""
        if command.index == QueueDeclare.index:
            return True
        return command.index in MAY_LEAVE_QUEUE_OUT and not command.method.queue

    def written_out(self, command: Command) -> Command:
        """The command with the name of the queue that it means; the same object, if it names one itself.

        A binding that has no routing key either has the queue's name for one.
        """
        method = command.method
        name = self._names.get(command.channel)
        if name is None or isinstance(method, QueueDeclare) or method.queue:
            return command
        changes = {"queue": name}
        if isinstance(method, (QueueBind, QueueUnbind)) and not method.routing_key:
            changes["routing_key"] = name
        return command.altered(replace(method, **changes))

    def left_out(self, after: Command, written_out: Command, before: Command) -> Command:
        """What goes on in place of `before`, where rules have made `after` of what was written out.

        A name that no rule has changed is left out again.
        """
        if after is written_out or written_out is before:
            return before if after is written_out else after
        method: Any = after.method
        name = written_out.method.queue
        if method.index != before.index or method.queue != name:
            return after
        changes = {"queue": ""}
        had_no_key = getattr(before.method, "routing_key", None) == ""
        if had_no_key and written_out.method.routing_key == method.routing_key == name:
            changes["routing_key"] = ""
        return after.altered(replace(method, **changes))
