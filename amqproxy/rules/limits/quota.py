"""Limit on simultaneous connections, channels, consumers or queues."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    ChannelOpen,
    ConnectionOpen,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.rules.context import CommandContext
from amqproxy.rules.limits.group import Group
from amqproxy.rules.limits.limit_kind import LimitKind, limit_exceeded
from amqproxy.rules.limits.resource_counts import (
    CountedResource,
    ExpectedAnswer,
    GroupTotal,
    GroupTotals,
    Request,
    ResourceCounts,
)
from amqproxy.rules.matching.operations import spellings
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Verdict

_NONE: frozenset[str] = frozenset()

COUNTED = {
    "connections": frozenset({"connection.open"}),
    "channels": frozenset({"channel.open"}),
    "consumers": frozenset({"basic.consume"}),
    "queues": frozenset({"queue.declare"}),
}
"""Countable resources, and the methods that request one."""

_RETURNED = {
    "consumers": (
        frozenset({"basic.cancel"}),
        frozenset({"basic.consume-ok", "basic.cancel", "basic.cancel-ok"}),
    ),
    "queues": (frozenset({"queue.declare", "queue.delete"}), frozenset({"queue.declare-ok", "queue.delete-ok"})),
}
"""Methods of client and server that name a resource, or release it."""

SESSION = 0
"""Channel number under which an inventory keeps resources without a channel."""


class Quota(LimitKind):
    """Limit on the resources of each group; a request for one more is refused.

    Queues count if a living session of the group has declared them and not deleted them, each name once; a passive
    declare does not count.
    """

    def __init__(self, of: str, most: int, group: Callable[[CommandContext], Group], code: int, text: str) -> None:
        super().__init__(COUNTED[of], "refuse", code, text)
        self._of = of
        self._most = most
        self._group = group

    def begin(self) -> GroupTotals:
        return GroupTotals()

    def begin_session(self) -> ResourceCounts:
        return ResourceCounts()

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        total: GroupTotal = memory.shared.total(self._group(context))
        if total.count >= self._most and not self._is_held(context, memory.own, total):
            return limit_exceeded(context, self.code, self.text)
        self._take(context, memory.own, total)
        return Verdict(command=context.command)

    def _is_held(self, context: CommandContext, inventory: ResourceCounts, total: GroupTotal) -> bool:
        """Whether the request adds no further resource."""
        match context.command.method:
            case QueueDeclare(passive=True):
                return True
            case QueueDeclare(queue=queue):
                return not _is_named_by_broker(queue) and (context.client.vhost, queue) in total
            case BasicConsume(consumer_tag=tag):
                return bool(tag) and inventory.holds(context.command.channel, tag)
            case _:
                return False

    def _take(self, context: CommandContext, inventory: ResourceCounts, total: GroupTotal) -> None:
        channel = context.command.channel
        match context.command.method:
            case ConnectionOpen():
                inventory.hold(SESSION, "connection", total)
            case ChannelOpen():
                inventory.hold(channel, "channel", total)
            case BasicConsume(consumer_tag=tag, no_wait=no_wait):
                if inventory.holds(channel, tag):
                    pass
                elif no_wait and tag:
                    inventory.hold(channel, tag, total)
                else:
                    inventory.ask(channel, tag, total)
            case QueueDeclare(passive=False, queue=queue, no_wait=no_wait):
                is_unnamed = _is_named_by_broker(queue)
                name = None if is_unnamed else (context.client.vhost, queue)
                if no_wait:
                    label = object() if is_unnamed else queue  # the name is unknown, but the queue exists
                    inventory.keep(SESSION, label, CountedResource(total, name))
                else:
                    inventory.ask(channel, queue, total, name)
            case _:
                pass

    # --- resources released by name

    def notes(self, sender: Peer) -> frozenset[str]:
        by_client, by_server = _RETURNED.get(self._of, (_NONE, _NONE))
        return by_client if sender is CLIENT else by_server

    def note(self, context: CommandContext, memory: RuleState) -> None:
        inventory: ResourceCounts = memory.own
        channel = context.command.channel
        match context.command.method:
            case BasicConsumeOk(consumer_tag=tag):
                held = inventory.receive(channel, tag)
                if held is not None:
                    inventory.keep(channel, tag, held)
            case BasicCancelOk(consumer_tag=tag):
                inventory.release(channel, tag)
            case BasicCancel(consumer_tag=tag, no_wait=no_wait):
                if no_wait or not context.is_from_client:
                    inventory.release(channel, tag)
            case QueueDeclare(no_wait=False):
                inventory.expect(channel, ExpectedAnswer(Request.DECLARE))
            case QueueDeclareOk(queue=queue):
                self._forget(context, memory, Request.DECLARE)
                held = inventory.receive(channel, queue)
                if held is not None:
                    inventory.keep(SESSION, queue, held.renamed((context.client.vhost, queue)))
            case QueueDelete(queue=queue, no_wait=no_wait):
                request = Request.UNANSWERED_DELETE if no_wait else Request.DELETE
                inventory.expect(channel, ExpectedAnswer(request, queue, memory.shared.next_age()))
            case QueueDeleteOk():
                self._forget(context, memory, Request.DELETE)
            case _:
                pass

    def _forget(self, context: CommandContext, memory: RuleState, request: Request) -> None:
        """Release the queues whose deletion an answer proves, whichever session of the group declared them."""
        total = memory.shared.total(self._group(context))
        for answer in memory.own.deletes_proven(context.command.channel, request):
            memory.own.release(SESSION, answer.queue, answer.age)
            total.drop((context.client.vhost, answer.queue), answer.age)


def _is_named_by_broker(queue: str) -> bool:
    """Whether a declare leaves the name to the broker; RabbitMQ drops line breaks before it checks."""
    return not spellings(queue)[-1]
