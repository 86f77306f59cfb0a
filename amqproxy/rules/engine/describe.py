"""Descriptions of verdicts in words."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import AccessRefused, Scope
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.conversion.error_codes import connection_code, session_code
from amqproxy.rules.verdict import Answer, Close, Verdict

_ANSWERS = {
    Answer.NOTHING: "dropped",
    Answer.ACK: "dropped, and acknowledged",
    Answer.NACK: "refused with basic.nack",
    Answer.RETURN: "returned",
    Answer.REJECT: "rejected",
    Answer.REQUEUE: "put back",
}

_AMQP010_ANSWERS = {
    Answer.NOTHING: "dropped",
    Answer.ACK: "dropped, and accepted",
    Answer.NACK: "refused with message.reject",
    Answer.RETURN: "returned: message.reject, unroutable",
    Answer.REJECT: "rejected",
    Answer.REQUEUE: "released",
}

_REFUSED = "refused by a rule of the proxy"


def describe_verdict(
    verdict: Verdict, command: Command, *, is_confirming: bool = False, is_amqp010: bool = False
) -> tuple[str, ...]:
    """Describe the effects of a verdict on a command, a few words each; empty if the command passes unchanged.

    `is_confirming` is as in `ChannelInfo`. With `is_amqp010`, the command is the view of a 0-10 command, and the client
    is answered in 0-10.
    """
    close = verdict.close
    is_publish = command.index == BasicPublish.index
    if verdict.command is None and verdict.answer is Answer.NACK and is_publish and not is_confirming:
        close = Close(Scope.CHANNEL, AccessRefused.code, AccessRefused(_REFUSED).reply_text)
    if close is not None:
        return (f"refused: {(_amqp010_end if is_amqp010 else _end)(close, command)}",)
    words: list[str] = []
    if verdict.command is None:
        words.append(_answer(verdict.answer, command, is_confirming=is_confirming, is_amqp010=is_amqp010))
    elif verdict.command is not command:
        words += _changes(command, verdict.command)
    if verdict.delay > 0:
        words.append(f"delayed by {verdict.delay:.3g} s")
    if verdict.hold is not None:
        words.append(f"held for up to {verdict.hold.timeout:g} s")
    if verdict.behind:
        words.append(f"moved behind the next {verdict.behind}")
    for insertion in verdict.insertions:
        words.append(f"{insertion.command.method.name} inserted for the {insertion.to}")
    for mirrored in verdict.mirrored:
        words.append(f"mirrored to {mirrored.upstream or mirrored.command.method.exchange}")
    for impairment in verdict.impairments:
        words.append(f"{type(impairment).__name__.lower()} towards the {impairment.to}")
    if verdict.damage:
        words.append("damaged")
    if verdict.shown is not None:
        words.append("redacted for taps")
    words += [f"tagged {tag}" for tag in verdict.tags]
    words += [f"failed: {how}" for _, how in verdict.failures]
    for level, text in verdict.logged:
        words.append(f"logged ({level}): {text}")
    return tuple(words)


def _answer(answer: Answer, command: Command, *, is_confirming: bool, is_amqp010: bool) -> str:
    """Describe the reply to the sender of a message that is not forwarded."""
    if is_amqp010:
        return _AMQP010_ANSWERS[answer if is_confirming else Answer.NOTHING]
    if answer is Answer.ACK and command.index == BasicPublish.index:
        return "dropped, and confirmed" if is_confirming else "dropped"
    return _ANSWERS[answer]


def _end(close: Close, command: Command) -> str:
    return f"{close.scope}.close {close.code} {close.text}"


def _amqp010_end(close: Close, command: Command) -> str:
    if close.scope is Scope.CONNECTION or command.channel == 0:
        return f"connection.close {connection_code(close.code):d} {close.text}"
    return f"execution.exception {session_code(close.code):d} {close.text}"


def _changes(before: Command, after: Command) -> list[str]:
    """Describe the differences between two commands of the same method."""
    words = _differences(before.method, after.method)
    if before.header is not None and after.header is not None:
        words += _differences(before.properties, after.properties)
        if after.body_size != before.body_size or (not after.frames and after.body != before.body):
            words.append(f"body: {before.body_size} bytes → {after.body_size}")
    return words or ["encoded again"]


def _differences(before: Any, after: Any) -> list[str]:
    if type(before) is not type(after):
        return [f"{before.name} → {after.name}"]
    pairs = ((field, getattr(before, field), getattr(after, field)) for field in before.__struct_fields__)
    return [f"{field}: {_shown(old)} → {_shown(new)}" for field, old, new in pairs if old != new]


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"  # the bytes may hold a secret
    return repr(getattr(value, "values_by_name", value))
