"""How one kind of limit counts and decides, and what becomes of a command that goes over it."""

from __future__ import annotations

from typing import Any, Literal

from amqproxy.amqp091.errors import Scope, reply_text
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.rules.context import CommandContext
from amqproxy.rules.rule import RuleState
from amqproxy.rules.verdict import Answer, Close, Stage, Verdict

Act = Literal["delay", "refuse", "block", "clamp"]
"""What is done about what goes over a limit."""


class LimitKind:
    """The part of a `Limit` that differs with what is limited: `Limit` calls its methods from those of a rule."""

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
        """The methods of `sender` that `note` is called for."""
        return frozenset()

    def note(self, context: CommandContext, memory: RuleState) -> None:
        """Count what a command of those methods takes or gives back."""


def limit_exceeded(context: CommandContext, code: int, text: str, *, may_nack: bool = True) -> Verdict:
    """A publish is nacked where the channel confirms; of all else, the client's channel or connection is closed."""
    if may_nack and context.channel.is_confirming and context.command.method.name == "basic.publish":
        return Verdict(command=None, answer=Answer.NACK)
    scope = Scope.CHANNEL if context.command.channel else Scope.CONNECTION
    return Verdict(command=None, close=Close(scope, code, reply_text(code, text), CLIENT))
