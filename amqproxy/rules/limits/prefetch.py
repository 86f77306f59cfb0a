"""Limits on prefetch and on unacknowledged messages."""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicQos,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.rules.context import CommandContext
from amqproxy.rules.limits.limit_kind import Act, LimitKind, limit_exceeded
from amqproxy.rules.limits.resource_counts import MADE_BY_BROKER
from amqproxy.rules.rule import RuleState, SessionMemory
from amqproxy.rules.verdict import Insertion, Verdict

_QOS = frozenset({"basic.qos"})
_NONE: frozenset[str] = frozenset()
_CONSUMES = frozenset({"basic.consume"})
_CONSUMERS = frozenset({"basic.consume-ok", "basic.cancel-ok", "basic.cancel"})
"""Broker methods that end or name consumers: deliveries may come until the broker confirms a cancel."""

MAX_NO_ACK = 10_000
"""Maximum number of no-ack consumers that are tracked per channel, and of those that await their tags."""


class ChannelPrefetches(SessionMemory):
    """The channels of a session that have a prefetch."""

    __slots__ = ("channels",)

    def __init__(self) -> None:
        self.channels: set[int] = set()

    def channel_closed(self, number: int) -> None:
        self.channels.discard(number)

    def session_over(self) -> None:
        self.channels.clear()


class PrefetchLimit(LimitKind):
    """Limit on the prefetch of each consumer that acknowledges.

    A higher or unlimited prefetch is clamped or refused; a consumer without one gets one, or is refused.
    """

    def __init__(self, most: int, act: Act, code: int, text: str) -> None:
        super().__init__(frozenset({"basic.qos", "basic.consume"}), act, code, text)
        self._most = most

    def begin_session(self) -> ChannelPrefetches:
        return ChannelPrefetches()

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        method = context.command.method
        if isinstance(method, BasicQos):
            if 0 < method.prefetch_count <= self._most:
                return Verdict(command=context.command)
            if self.act == "refuse":
                return limit_exceeded(context, self.code, self.text)
            return Verdict(command=context.command.altered(method=replace(method, prefetch_count=self._most)))
        settings: ChannelPrefetches = memory.own
        if method.no_ack or context.channel.is_by_credit or context.command.channel in settings.channels:
            return Verdict(command=context.command)
        if self.act == "refuse":
            return limit_exceeded(context, self.code, self.text)
        settings.channels.add(context.command.channel)
        return Verdict(command=context.command, insertions=(_qos(context.command.channel, self._most),))

    def notes(self, sender: Peer) -> frozenset[str]:
        return _QOS if sender is CLIENT else _NONE

    def note(self, context: CommandContext, memory: RuleState) -> None:
        """Note that the channel has a prefetch, from any basic.qos, even one that the rule does not match."""
        memory.own.channels.add(context.command.channel)


class Unsettled(ChannelPrefetches):
    """Channel prefetches, each channel's no-ack consumers, and whether consumers without a tag yet acknowledge."""

    __slots__ = ("no_ack", "unnamed")

    def __init__(self) -> None:
        super().__init__()
        self.no_ack: dict[int, dict[str, None]] = {}
        self.unnamed: dict[int, deque[bool]] = {}

    def ask(self, channel: int, consume: BasicConsume) -> None:
        if not consume.consumer_tag:
            unnamed = self.unnamed.setdefault(channel, deque())
            if not consume.no_wait and len(unnamed) < MAX_NO_ACK:
                unnamed.append(consume.no_ack)
        elif consume.no_ack:
            self._add(channel, consume.consumer_tag)
        else:
            self.cancel(channel, consume.consumer_tag)

    def cancel(self, channel: int, tag: str) -> None:
        """Forget a cancelled consumer."""
        self.no_ack.get(channel, {}).pop(tag, None)

    def _add(self, channel: int, tag: str) -> None:
        tags = self.no_ack.setdefault(channel, {})
        tags[tag] = None
        if len(tags) > MAX_NO_ACK:
            del tags[next(iter(tags))]  # the oldest, which then counts as one that acknowledges

    def name(self, channel: int, tag: str) -> None:
        """Name a consumer with the tag that the broker generated."""
        unnamed = self.unnamed.get(channel)
        if tag.startswith(MADE_BY_BROKER) and unnamed and unnamed.popleft():
            self._add(channel, tag)

    def channel_closed(self, number: int) -> None:
        super().channel_closed(number)
        self.no_ack.pop(number, None)
        self.unnamed.pop(number, None)

    def session_over(self) -> None:
        super().session_over()
        self.no_ack.clear()
        self.unnamed.clear()


class UnackedLimit(LimitKind):
    """Limit on the unacknowledged messages of a channel, over all its consumers.

    `clamp` lets the broker enforce it by a channel-wide prefetch, which quorum queues and streams do not support.
    `refuse` closes the channel of a client that has that many and receives, or gets, another message.
    """

    def __init__(self, most: int, act: Act, code: int, text: str) -> None:
        of_clamping = frozenset({"basic.qos", "basic.consume"})
        super().__init__(of_clamping if act == "clamp" else frozenset({"basic.deliver", "basic.get"}), act, code, text)
        self._most = most

    def begin_session(self) -> Unsettled:
        return Unsettled()

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        unsettled: Unsettled = memory.own
        channel = context.command.channel
        match context.command.method:
            case BasicQos(global_=True) as qos:
                if not 0 < qos.prefetch_count <= self._most:
                    return Verdict(command=context.command.altered(method=replace(qos, prefetch_count=self._most)))
            case BasicConsume(no_ack=False) if channel not in unsettled.channels:
                unsettled.channels.add(channel)
                return Verdict(command=context.command, insertions=(_qos(channel, self._most, of_channel=True),))
            case BasicGet(no_ack=False) if context.channel.unacked >= self._most:
                return limit_exceeded(context, self.code, self.text)
            case BasicDeliver(consumer_tag=tag) if context.channel.unacked >= self._most:
                if tag not in unsettled.no_ack.get(channel, ()):
                    return limit_exceeded(context, self.code, self.text)
            case _:
                pass
        return Verdict(command=context.command)

    def notes(self, sender: Peer) -> frozenset[str]:
        if self.act == "clamp":
            return _QOS if sender is CLIENT else _NONE
        # The broker may send deliveries until it confirms the cancel.
        return frozenset(
            {"basic.consume"} if sender is CLIENT else {"basic.consume-ok", "basic.cancel-ok", "basic.cancel"}
        )

    def note(self, context: CommandContext, memory: RuleState) -> None:
        unsettled: Unsettled = memory.own
        match context.command.method:
            case BasicQos(global_=True):
                unsettled.channels.add(context.command.channel)
            case BasicConsume() as consume:
                unsettled.ask(context.command.channel, consume)
            case BasicCancelOk(consumer_tag=tag) | BasicCancel(consumer_tag=tag):
                unsettled.cancel(context.command.channel, tag)
            case BasicConsumeOk(consumer_tag=tag):
                unsettled.name(context.command.channel, tag)
            case _:
                pass


def _qos(channel: int, count: int, *, of_channel: bool = False) -> Insertion:
    return Insertion(SERVER, Command(channel, BasicQos(0, count, of_channel)), is_ahead=True)
