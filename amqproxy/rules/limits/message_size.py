"""Limit on message size."""

from __future__ import annotations

from amqproxy.rules.context import CommandContext
from amqproxy.rules.limits.limit_kind import LimitKind, limit_exceeded
from amqproxy.rules.limits.rate_limit import PUBLISHED
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Stage, Verdict


class MessageSizeLimit(LimitKind):
    """Limit on body bytes; like RabbitMQ, it closes the channel of the sender, whether that confirms or not."""

    needs = Stage.HEADER

    def __init__(self, most: int, code: int, text: str) -> None:
        super().__init__(PUBLISHED, "refuse", code, text)
        self._most = most

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        if context.command.body_size <= self._most:
            return Verdict(command=context.command)
        text = self.text or f"message size {context.command.body_size} is larger than configured max size {self._most}"
        return limit_exceeded(context, self.code, text, may_nack=False)
