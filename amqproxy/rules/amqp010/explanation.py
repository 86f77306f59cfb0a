"""Explanations about 0-10: the view that rules have of its methods, and the answers to its clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.methods import BY_NAME as METHODS
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BY_NAME
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.conversion.amqp010.error_codes import connection_code, session_code
from amqproxy.conversion.amqp010.method_views import SHAPES
from amqproxy.rules.engine.describe import AnswerWords
from amqproxy.rules.engine.explanation import ExplainedCommand
from amqproxy.rules.suggestions import did_you_mean
from amqproxy.rules.verdict import Answer, Close

_ANSWERS = {
    Answer.NOTHING: "dropped",
    Answer.ACK: "dropped, and accepted",
    Answer.NACK: "refused with message.reject",
    Answer.RETURN: "returned: message.reject, unroutable",
    Answer.REJECT: "rejected",
    Answer.REQUEUE: "released",
}


def _answer(answer: Answer, command: Command, is_confirming: bool) -> str:
    return _ANSWERS[answer if is_confirming else Answer.NOTHING]


def _end(close: Close, command: Command) -> str:
    if close.scope is Scope.CONNECTION or command.channel == 0:
        return f"connection.close {connection_code(close.code):d} {close.text}"
    return f"execution.exception {session_code(close.code):d} {close.text}"


AMQP010_WORDS = AnswerWords(_answer, _end)


def explained_command(
    given: Mapping[str, str], method: str | None = None, sender: Peer | None = None, protocol: str | None = None
) -> ExplainedCommand:
    """Return the command to explain, as `ExplainedCommand` does; a 0-10 method as the 0-9-1 method that rules see.

    `protocol` selects 0-10 for names of both protocols.
    """
    if method is None or (protocol != NAME and (method in BY_NAME or method not in METHODS)):
        return ExplainedCommand(given, method, sender, others=METHODS)
    seen_by, name, constants = _view(method, sender)
    return ExplainedCommand(given, name, seen_by, shown=method, constants=constants, words=AMQP010_WORDS)


def _view(name: str, sender: Peer | None) -> tuple[Peer, str, Mapping[str, Any]]:
    """Return the sender of a control or command, and the method and constants by which rules see it."""
    if name not in METHODS:
        raise ValueError(f"AMQP 0-10 has no method `{name}`{did_you_mean(name, METHODS)}")
    for each in [sender] if sender else list(Peer):
        if name == MessageTransfer.name:
            return each, "basic.publish" if each is CLIENT else "basic.deliver", {}
        shape = SHAPES[each].get(METHODS[name])
        if shape is not None:
            return each, shape.method.name, shape.constants
    raise ValueError(f"rules do not see {name}{f' of the {sender}' if sender else ''}: it passes")
