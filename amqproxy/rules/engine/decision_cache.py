"""Cache of rule decisions by the bytes of a method."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicReject, Method
from amqproxy.amqp091.pass_cache import Credit
from amqproxy.rules.engine.compiled_rule import CompiledRule
from amqproxy.rules.engine.outcome import OutcomeCounter
from amqproxy.rules.verdict import Answer, Stage, Verdict

MAX_KEY_SIZE = 1024
"""Longest cached key, in bytes."""

_TAG_FIRST = frozenset({BasicAck.index, BasicNack.index, BasicReject.index, BasicGetOk.index})
_TAG_SECOND = BasicDeliver.index
_TAGGED = _TAG_FIRST | {_TAG_SECOND}


def cache_key(frame: Frame) -> bytes:
    """Return the cache key of a method: its bytes without the delivery tag."""
    payload = frame.payload
    index = frame.index
    if index in _TAGGED:
        if len(payload) < 5:
            return payload  # truncated arguments: decoding reports the error
        start = 4 if index != _TAG_SECOND else 5 + payload[4]
        return payload[:start] + payload[start + 8 :]
    return payload


def has_effect(verdict: Verdict, command: Command) -> bool:
    """Whether the verdict has any effect besides passing the command, including marks."""
    return bool(verdict.marks or verdict.tags or verdict.failures) or changes_traffic(verdict, command)


def changes_traffic(verdict: Verdict, command: Command) -> bool:
    """Whether the verdict has any effect on the traffic besides passing the command."""
    return bool(
        verdict.command is not command
        or verdict.close is not None
        or verdict.delay
        or verdict.behind
        or verdict.hold is not None
        or verdict.insertions
        or verdict.impairments
        or verdict.mirrored
        or verdict.shown is not None
        or verdict.logged
        or verdict.damage
        or verdict.answer is not Answer.NOTHING
    )


class CachedPasses:
    """Outcome of commands that pass without evaluation while all `allowances` last.

    With `if_plain`, it applies only to publishes whose header names no further queues or exchanges; with `largest` of
    at least 0, only to bodies of at most that many bytes.
    """

    __slots__ = ("_decision", "allowances", "if_plain", "largest")

    def __init__(
        self, known: CachedDecision, allowances: tuple[Credit, ...], if_plain: bool = False, largest: int = -1
    ) -> None:
        self._decision = known
        self.allowances = allowances
        self.if_plain = if_plain
        self.largest = largest

    @property
    def method(self) -> Method | None:
        """Method that is forwarded instead of the received one; `None` to forward the received one."""
        method: Method | None = self._decision.method
        return method

    def count(self, times: int = 1) -> None:
        """Count further commands that were forwarded."""
        self._decision.count(times)


class CachedDecision:
    """Decision about all commands with the same method bytes: a verdict, or the point where rules must be called each
    time.

    The verdict joins the verdicts of the rules that decide once; `asked` are the remaining rules, whose method
    conditions hold if `is_certain`.
    """

    __slots__ = (
        "_goes_on",
        "_is_plain",
        "_verdict",
        "asked",
        "counts",
        "goes_on_alike",
        "is_certain",
        "is_final",
        "is_passing",
        "is_restored_first",
        "is_restored_last",
        "may_pass_unevaluated",
        "method",
        "stage",
    )

    def __init__(self, command: Command, verdict: Verdict, stage: Stage) -> None:
        """`verdict` is on `command`, or on one with the same bytes."""
        self.stage = stage
        self.asked: tuple[CompiledRule, ...] = ()
        self.is_certain = True
        self.is_restored_first = False
        self.is_restored_last = False
        self.may_pass_unevaluated = True
        """Whether the remaining rules can be skipped as long as their allowances last."""
        self.counts: tuple[OutcomeCounter, ...] = ()
        self.settle(verdict, command)

    def settle(self, verdict: Verdict, command: Command) -> None:
        """Mark the decision as complete."""
        changed = verdict.command
        self._goes_on = changed is not None
        self.method: Any = None if changed is None or changed is command else changed.method
        """Forwarded method, if rules changed it."""
        self._is_plain = not has_effect(verdict, command)
        # Release the command: its frames may share a read buffer with many others.
        self._verdict = msgspec.structs.replace(verdict, command=None)
        self.is_final = True
        """Whether the verdict is final."""
        self.is_passing = self._is_plain
        """Whether the verdict is final and passes the command untouched."""
        self.goes_on_alike = self._goes_on and not changes_traffic(
            msgspec.structs.replace(verdict, command=command), command
        )
        """Whether the verdict only passes the command, with its own or a changed method."""

    def count(self, times: int = 1) -> None:
        """Count further commands of this kind."""
        for count in self.counts:
            count.number += times

    def verdict_on(self, command: Command) -> Verdict:
        """Return the verdict for a command."""
        verdict = self._verdict
        if not self._goes_on:
            return verdict
        method = self.method
        if method is None:
            if self._is_plain:
                return Verdict(command=command, is_final=verdict.is_final)
            return msgspec.structs.replace(verdict, command=command)
        if method.index in _TAGGED:
            method = msgspec.structs.replace(method, delivery_tag=command.method.delivery_tag)
        return msgspec.structs.replace(verdict, command=command.altered(method=method))
