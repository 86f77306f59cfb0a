"""Limits on what a client may have delivered before it acknowledges: prefetch, and unacknowledged messages."""

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
"""What the broker says of consumers: until it confirms a cancel, deliveries may come."""

MAX_NO_ACK = 10_000
"""Consumers without acknowledgements that are remembered of one channel, and those that await their tags."""


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
    """At most so many deliveries under way to each consumer that acknowledges.

    What asks for more, or for no limit, is clamped or refused; a consumer without any gets one, or is refused.
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
        """Whatever qos the client asks for, its consumers are not without: also one that the rule is not about."""
        memory.own.channels.add(context.command.channel)


class Unsettled(ChannelPrefetches):
    """Besides, the consumers of each channel that need not acknowledge; of those without a tag yet, whether they do."""

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
        """Forget a consumer that gets nothing more."""
        self.no_ack.get(channel, {}).pop(tag, None)

    def _add(self, channel: int, tag: str) -> None:
        tags = self.no_ack.setdefault(channel, {})
        tags[tag] = None
        if len(tags) > MAX_NO_ACK:
            del tags[next(iter(tags))]  # that of the oldest: it counts as one that acknowledges

    def name(self, channel: int, tag: str) -> None:
        """The broker has made a tag for a consumer."""
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
    """At most so many unacknowledged messages on a channel, however many consumers it has.

    To clamp is to have the broker enforce it, by a prefetch for the channel as a whole, which quorum queues and streams
    do not support. To refuse is to close the channel of a client that has as many and is delivered another, or
    gets it.
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
        # Deliveries may come until the broker confirms the cancel.
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
