"""Checks that a rule's result can be encoded, while the rule is still being evaluated."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import MAX_REPLY_TEXT, Scope
from amqproxy.amqp091.methods import BasicPublish, Method
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.transitions import SENDERS, Peer
from amqproxy.rules.verdict import Answer, Close, HoldAction, Impairment, Insertion, MirroredCopy, Verdict

LEVELS = frozenset({"debug", "info", "warning", "error"})
MAX_CODE = 65_535
"""Largest reply code, which is a short integer."""


class Unsendable(ValueError):
    """Raised if a rule's result does not fit the protocol; the text contains no data of a peer."""


def check_verdict(verdict: Verdict, command: Command) -> None:
    """Raise `Unsendable` if a new part of the verdict on `command` cannot be encoded.

    Parts that came from a peer are not checked again. Types must be right: see `check_types`.
    """
    changed = verdict.command
    if changed is not None and changed is not command:
        _check_changed(changed, command)
    if verdict.close is not None:
        check_reply(verdict.close.code, verdict.close.text)
    if verdict.answer is Answer.RETURN:
        check_reply(*verdict.returned)
    for insertion in verdict.insertions:
        check_command(insertion.command)
        name = insertion.command.method.name
        if insertion.to.other not in SENDERS[name]:
            raise Unsendable(f"{name} is not for the {insertion.to}")
    for copy in verdict.mirrored:
        check_command(copy.command)
    if verdict.shown is not None and verdict.shown is not command:
        _check_changed(verdict.shown, command)  # a message without its header yet has the method only


def check_command(command: Command) -> None:
    """Raise `Unsendable` if a command cannot be encoded."""
    method = command.method
    _check_method(method)
    if method.carries_content:
        _check_header(command.header)
        if not command.frames and not isinstance(command.body, bytes):
            raise Unsendable(f"{method.name}: the body is not bytes")


def check_reply(code: Any, text: Any) -> None:
    """Raise `Unsendable` if a close or a return cannot contain this code and text."""
    if not isinstance(code, int) or not 0 <= code <= MAX_CODE:
        raise Unsendable(f"a reply code is a number from 0 to {MAX_CODE}")
    try:
        size = len(text.encode("utf-8", "surrogateescape"))
    except (AttributeError, UnicodeEncodeError):
        raise Unsendable("a reply text must be valid UTF-8") from None
    if size > MAX_REPLY_TEXT:
        raise Unsendable(f"the reply text has {size} bytes, the limit is {MAX_REPLY_TEXT}")


def _check_changed(changed: Command, command: Command) -> None:
    if changed.channel != command.channel:
        raise Unsendable("the command is on another channel than the received one")
    if type(changed.method) is not type(command.method) and isinstance(changed.method, Method):
        name = changed.method.name
        if not SENDERS[command.method.name] <= SENDERS[name]:
            raise Unsendable(f"{name} is not sent by the sender of {command.method.name}")
    if changed.frames is not command.frames or not changed.frames:
        check_command(changed)
        return
    method = changed.method
    if method is not command.method:
        _check_method(method)
        if method.carries_content != command.method.carries_content:
            raise Unsendable(f"{method.name} cannot replace {command.method.name}: only one of them has content")
    if changed.header is not command.header:
        _check_header(changed.header)


def _check_method(method: Any) -> None:
    if not isinstance(method, Method):
        raise Unsendable("the command has no method")
    try:
        method.encode()
    except Exception as error:  # noqa: BLE001 - values of any type, with methods of their own
        raise Unsendable(f"{method.name} cannot be encoded: {_reason(error)}") from None


def _check_header(header: Any) -> None:
    if not isinstance(header, ContentHeader):
        raise Unsendable("the message has no header")
    try:
        header.encode()
    except Exception as error:  # noqa: BLE001 - as above
        raise Unsendable(f"the properties cannot be encoded: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Describe an encoding error without the text that could not be encoded."""
    if isinstance(error, UnicodeError):
        return "a text that UTF-8 cannot hold"
    return f"{type(error).__name__}: {error}"


# --- verdicts that Python of the config's has made


def check_types(verdict: Any) -> None:
    """Raise `Unsendable` if a part of a verdict has a wrong type, since a script may put anything anywhere."""
    _check("command", verdict.command is None or isinstance(verdict.command, Command), "is not a Command or None")
    _check("answer", isinstance(verdict.answer, Answer), "is not an Answer")
    returned = verdict.returned
    _check("returned", isinstance(returned, tuple) and len(returned) == 2, "is not a pair of a code and a text")
    close = verdict.close
    _check("close", close is None or _is_close(close), "is not a Close with a scope, a code and a text")
    _check("delay", _is_time(verdict.delay), "is not a number of seconds of at least 0")
    _check("behind", isinstance(verdict.behind, int) and verdict.behind >= 0, "is not a number of at least 0")
    _check("hold", verdict.hold is None or _is_hold(verdict.hold), "is not a HoldAction with a name and a timeout")
    _check("insertions", _are(verdict.insertions, _is_insertion), "are not Insertions of commands")
    _check("mirrored", _are(verdict.mirrored, _is_copy), "are not copies of a basic.publish")
    _check("impairments", _are(verdict.impairments, _is_impairment), "are no Impairments")
    _check("shown", verdict.shown is None or isinstance(verdict.shown, Command), "is not a Command or None")
    _check("marks", _are(verdict.marks, _is_text), "are no texts")
    _check("tags", _are(verdict.tags, _is_text), "are no texts")
    _check("failures", not verdict.failures, "cannot be set by a script")
    _check("logged", _are(verdict.logged, _is_line), "are not pairs of a level and a text")
    _check("damage", _are(verdict.damage, _is_damage), "are not pairs of a place and a mask")


def _check(part: str, is_right: bool, what: str) -> None:
    if not is_right:
        raise Unsendable(f"the verdict's `{part}` {what}")


def _are(values: Any, is_one: Any) -> bool:
    return isinstance(values, tuple) and all(is_one(each) for each in values)


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value >= 0


def _is_close(value: Any) -> bool:
    return isinstance(value, Close) and _is_scope(value.scope) and value.receiver in (None, *Peer)


def _is_scope(value: Any) -> bool:
    return isinstance(value, Scope)


def _is_hold(value: Any) -> bool:
    return isinstance(value, HoldAction) and _is_text(value.name) and _is_time(value.timeout)


def _is_insertion(value: Any) -> bool:
    return isinstance(value, Insertion) and _are((value.command,), _is_command) and _is_to(value.to, value.after)


def _is_to(to: Any, after: Any) -> bool:
    return isinstance(to, Peer) and _is_time(after)


def _is_command(value: Any) -> bool:
    return isinstance(value, Command)


def _is_copy(value: Any) -> bool:
    return isinstance(value, MirroredCopy) and _is_publish(value.command) and _is_name(value.upstream)


def _is_publish(value: Any) -> bool:
    return isinstance(value, Command) and isinstance(value.method, BasicPublish)


def _is_name(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_impairment(value: Any) -> bool:
    """Whether it is a known impairment with valid numbers."""
    if not isinstance(value, Impairment) or type(value) is Impairment or not isinstance(value.to, Peer):
        return False
    numbers = [each for name, each in msgspec.structs.asdict(value).items() if name not in ("to", "by", "duration")]
    return all(_is_time(each) for each in numbers) and (value.duration is None or _is_time(value.duration))


def _is_line(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and value[0] in LEVELS and _is_text(value[1])


def _is_damage(value: Any) -> bool:
    match value:
        case (int(place), int(mask)):
            return place >= 0 and 0 <= mask <= 255
    return False
