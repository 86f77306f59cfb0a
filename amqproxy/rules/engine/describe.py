"""Descriptions of verdicts in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import AccessRefused, Scope
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.rules.verdict import Answer, Close, Verdict

_ANSWERS = {
    Answer.NOTHING: "dropped",
    Answer.ACK: "dropped, and acknowledged",
    Answer.NACK: "refused with basic.nack",
    Answer.RETURN: "returned",
    Answer.REJECT: "rejected",
    Answer.REQUEUE: "put back",
}

_REFUSED = "refused by a rule of the proxy"


class AnswerWords(NamedTuple):
    """A protocol's words for the answers of its clients."""

    answer: Callable[[Answer, Command, bool], str]
    """Describes the reply to the sender of a message that is not forwarded; the bool is `is_confirming`."""
    end: Callable[[Close, Command], str]
    """Describes how a channel, session or connection is ended for a command."""


def _answer(answer: Answer, command: Command, is_confirming: bool) -> str:
    if answer is Answer.ACK and command.index == BasicPublish.index:
        return "dropped, and confirmed" if is_confirming else "dropped"
    return _ANSWERS[answer]


def _end(close: Close, command: Command) -> str:
    return f"{close.scope}.close {close.code} {close.text}"


USUAL_WORDS = AnswerWords(_answer, _end)


def describe_verdict(
    verdict: Verdict, command: Command, *, is_confirming: bool = False, words: AnswerWords = USUAL_WORDS
) -> tuple[str, ...]:
    """Describe the effects of a verdict on a command, a few words each; empty if the command passes unchanged.

    `is_confirming` is as in `ChannelInfo`; `words` are those of the client's protocol.
    """
    close = verdict.close
    is_publish = command.index == BasicPublish.index
    if verdict.command is None and verdict.answer is Answer.NACK and is_publish and not is_confirming:
        close = Close(Scope.CHANNEL, AccessRefused.code, AccessRefused(_REFUSED).reply_text)
    if close is not None:
        return (f"refused: {words.end(close, command)}",)
    effects: list[str] = []
    if verdict.command is None:
        effects.append(words.answer(verdict.answer, command, is_confirming))
    elif verdict.command is not command:
        effects += _changes(command, verdict.command)
    if verdict.delay > 0:
        effects.append(f"delayed by {verdict.delay:.3g} s")
    if verdict.hold is not None:
        effects.append(f"held for up to {verdict.hold.timeout:g} s")
    if verdict.behind:
        effects.append(f"moved behind the next {verdict.behind}")
    for insertion in verdict.insertions:
        effects.append(f"{insertion.command.method.name} inserted for the {insertion.to}")
    for mirrored in verdict.mirrored:
        effects.append(f"mirrored to {mirrored.upstream or mirrored.command.method.exchange}")
    for impairment in verdict.impairments:
        effects.append(f"{type(impairment).__name__.lower()} towards the {impairment.to}")
    if verdict.damage:
        effects.append("damaged")
    if verdict.shown is not None:
        effects.append("redacted for taps")
    effects += [f"tagged {tag}" for tag in verdict.tags]
    effects += [f"failed: {how}" for _, how in verdict.failures]
    for level, text in verdict.logged:
        effects.append(f"logged ({level}): {text}")
    return tuple(effects)


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
