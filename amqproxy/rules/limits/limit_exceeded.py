"""What becomes of a command that goes over a limit."""

from __future__ import annotations

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.context import Seen
from amqproxy.rules.reply_text import reply_text
from amqproxy.rules.verdict import Answer, Close, Verdict


def overrun(seen: Seen, code: int, text: str, *, may_nack: bool = True) -> Verdict:
    """A publish is nacked where the channel confirms; of all else, the client's channel or connection is closed."""
    if may_nack and seen.channel.is_confirming and seen.command.method.name == "basic.publish":
        return Verdict(command=None, answer=Answer.NACK)
    scope = Scope.CHANNEL if seen.command.channel else Scope.CONNECTION
    return Verdict(command=None, close=Close(scope, code, reply_text(code, text), CLIENT))
