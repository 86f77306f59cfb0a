"""Limit on the amount that passes per second."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import ConnectionBlocked, ConnectionUnblocked
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import CLIENT, SENDERS
from amqproxy.rules.context import CommandContext
from amqproxy.rules.limits.group import Group
from amqproxy.rules.limits.limit_kind import Act, LimitKind, limit_exceeded
from amqproxy.rules.limits.token_bucket import Buckets, TokenBucket
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Insertion, Stage, Verdict

PUBLISHED = frozenset({"basic.publish"})
DELIVERED = frozenset({"basic.deliver", "basic.get-ok"})
ASKED = frozenset(
    name
    for name, senders in SENDERS.items()
    if CLIENT in senders
    and name not in ("channel.close", "channel.close-ok", "channel.flow-ok", "basic.cancel-ok")
    and (name == "connection.open" or not name.startswith("connection."))
)
"""Client requests that can be delayed; closing methods cannot."""

PACED = {
    "messages": PUBLISHED,
    "bytes": PUBLISHED,
    "deliveries": DELIVERED,
    "delivered_bytes": DELIVERED,
    "commands": ASKED,
}
"""Quantities with a rate, and the methods that count."""


class Blocking:
    """End of the period for which a client is told that it is blocked."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = float("-inf")


class RateLimit(LimitKind):
    """Rate limit of each group: excess commands are delayed, refused, or block their sender."""

    def __init__(
        self,
        of: str,
        rate: float,
        burst: float,
        group: Callable[[CommandContext], Group],
        max_delay: float,
        act: Act,
        code: int,
        text: str,
        *,
        is_by_channel: bool = False,
    ) -> None:
        super().__init__(PACED[of], act, code, text)
        self._is_by_channel = is_by_channel
        self.needs = Stage.HEADER if of.endswith("bytes") else Stage.METHOD
        self._rate = rate
        self._burst = burst
        self._group = group
        self._patience = 0.0 if act == "refuse" else max_delay
        self._is_about_clients = of == "commands"
        self._counts_bytes = of.endswith("bytes")

    def begin(self) -> Buckets:
        return Buckets(self._rate, self._burst)

    def begin_session(self) -> Blocking:
        return Blocking()

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        if self._is_about_clients and not context.is_from_client:
            return Verdict(command=context.command)
        amount = context.command.body_size if self._counts_bytes else 1
        bucket: TokenBucket = memory.shared.of(self._group(context), context.now)
        wait = bucket.take(amount, context.now, self._patience)
        if wait == 0:
            return Verdict(command=context.command)
        if wait < 0:
            return limit_exceeded(context, self.code, self.text)
        insertions = self._blocking(context, bucket, memory.own) if self.act == "block" else ()
        return Verdict(command=context.command, delay=wait, insertions=insertions)

    def allowance(self, context: CommandContext, memory: RuleState) -> Credit | None:
        """Return the bucket, so that the frame reader, which counts messages, can spend from it."""
        if self._counts_bytes or self._is_by_channel or (self._is_about_clients and not context.is_from_client):
            return None
        buckets: Buckets = memory.shared
        return buckets.own(self._group(context), context.now)

    def _blocking(self, context: CommandContext, bucket: TokenBucket, blocking: Blocking) -> tuple[Insertion, ...]:
        """Send the client connection.blocked, and connection.unblocked once the bucket is half full, to avoid a stream
        of both.

        Messages that the client sends meanwhile, because it lacks the capability or had sent them already, are delayed.
        """
        if not context.client.announced("connection.blocked") or context.now < blocking.until:
            return ()
        seconds = bucket.until(self._burst / 2, context.now)
        blocking.until = context.now + seconds
        return (
            Insertion(CLIENT, Command(0, ConnectionBlocked(self.text)), is_ahead=True),
            Insertion(CLIENT, Command(0, ConnectionUnblocked()), after=seconds),
        )
