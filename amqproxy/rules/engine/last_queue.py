"""Last declared queue of each channel, which an empty queue name refers to (section 1.7.2.1)."""

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
"""Methods in which an empty queue name refers to the last declared queue."""

MADE_BY_BROKER = "amq.gen-"
"""Placeholder for a queue whose generated name the broker has not sent yet."""


class LastQueues:
    """Last declared queues of a session's channels, by the names that the client knows."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def note(self, channel: int, declare: QueueDeclare) -> None:
        """Note a declare, even a passive one; RabbitMQ drops line breaks from the name."""
        self._names[channel] = spellings(declare.queue)[-1] or MADE_BY_BROKER

    def name(self, channel: int, name: str) -> None:
        """Set the generated name that the broker has sent."""
        if self._names.get(channel) == MADE_BY_BROKER:
            self._names[channel] = name

    def forget(self, channel: int) -> None:
        self._names.pop(channel, None)

    def concerns(self, command: Command) -> bool:
        """Whether the command refers to the last declared queue, or declares one."""
        if command.index == QueueDeclare.index:
            return True
        return command.index in MAY_LEAVE_QUEUE_OUT and not command.method.queue

    def written_out(self, command: Command) -> Command:
        """Return the command with the queue name filled in; the same object if the command names a queue.

        A binding without a routing key as well gets the queue's name as its routing key.
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
        """Return the command to forward in place of `before`, given the rules' result `after` for the written-out
        command.

        Clear the queue name again unless a rule changed it.
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
