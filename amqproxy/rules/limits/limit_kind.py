"""Interface of the kinds of limits, and the verdict on a command that exceeds one."""

from __future__ import annotations

from typing import Any, Literal

from amqproxy.amqp091.errors import Scope, reply_text
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.rules.context import CommandContext
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Answer, Close, Stage, Verdict

Act = Literal["delay", "refuse", "block", "clamp"]
"""Act on a command that exceeds a limit."""


class LimitKind:
    """The part of a `Limit` that depends on the limited thing; `Limit` delegates its rule methods to it."""

    needs = Stage.METHOD

    def __init__(self, methods: frozenset[str], act: Act, code: int, text: str) -> None:
        self.methods = methods
        self.act = act
        self.code = code
        self.text = text

    def begin(self) -> Any:
        return None

    def begin_session(self) -> Any:
        return None

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        raise NotImplementedError

    def allowance(self, context: CommandContext, memory: RuleState) -> Credit | None:
        return None

    def notes(self, sender: Peer) -> frozenset[str]:
        """Return the methods of `sender` for which `note` is called."""
        return frozenset()

    def note(self, context: CommandContext, memory: RuleState) -> None:
        """Count the resources that a command takes or releases."""


def limit_exceeded(context: CommandContext, code: int, text: str, *, may_nack: bool = True) -> Verdict:
    """Return the verdict above a limit: nack a publish on a confirming channel; otherwise close the client's channel or
    connection.
    """
    if may_nack and context.channel.is_confirming and context.command.method.name == "basic.publish":
        return Verdict(command=None, answer=Answer.NACK)
    scope = Scope.CHANNEL if context.command.channel else Scope.CONNECTION
    return Verdict(command=None, close=Close(scope, code, reply_text(code, text), CLIENT))
