"""Caches the rules' decisions by the bytes of a method."""

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
"""The longest key that is cached, in bytes."""

_TAG_FIRST = frozenset({BasicAck.index, BasicNack.index, BasicReject.index, BasicGetOk.index})
_TAG_SECOND = BasicDeliver.index
_TAGGED = _TAG_FIRST | {_TAG_SECOND}


def cache_key(frame: Frame) -> bytes:
    """The key of a method in the cache: all its bytes, but for a delivery tag."""
    payload = frame.payload
    index = frame.index
    if index in _TAGGED:
        if len(payload) < 5:
            return payload  # cut off within its arguments: decoding will report it
        start = 4 if index != _TAG_SECOND else 5 + payload[4]
        return payload[:start] + payload[start + 8 :]
    return payload


def has_effect(verdict: Verdict, command: Command) -> bool:
    """Does anything become of the command but its passing, if only a mark?"""
    return bool(verdict.marks or verdict.tags or verdict.failures) or changes_traffic(verdict, command)


def changes_traffic(verdict: Verdict, command: Command) -> bool:
    """Does anything become of the command that shows, but its passing?"""
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
    """What becomes of commands that rules need not be asked about, while there is enough left of all `allowances`.

    If `if_plain`, only publishes whose header has no further names.
    """

    __slots__ = ("_decision", "allowances", "if_plain")

    def __init__(self, known: CachedDecision, allowances: tuple[Credit, ...], if_plain: bool = False) -> None:
        self._decision = known
        self.allowances = allowances
        self.if_plain = if_plain

    @property
    def method(self) -> Method | None:
        """What goes on in place of theirs; None: theirs."""
        method: Method | None = self._decision.method
        return method

    def count(self, times: int = 1) -> None:
        """So many more such commands have gone on."""
        self._decision.count(times)


class CachedDecision:
    """What the rules make of all such commands: a verdict, or how far they get before one must be asked each time.

    Its verdict joins those of the rules that need only decide once; `asked` are the rules that remain, whose
    conditions on the method hold, if `is_certain`.
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
        """`verdict` is on `command`, or on one that had the same bytes."""
        self.stage = stage
        self.asked: tuple[CompiledRule, ...] = ()
        self.is_certain = True
        self.is_restored_first = False
        self.is_restored_last = False
        self.may_pass_unevaluated = True
        """Can it be that the rules left to be asked need not be, for as long as there are allowances?"""
        self.counts: tuple[OutcomeCounter, ...] = ()
        self.settle(verdict, command)

    def settle(self, verdict: Verdict, command: Command) -> None:
        """Mark the decision as complete."""
        changed = verdict.command
        self._goes_on = changed is not None
        self.method: Any = None if changed is None or changed is command else changed.method
        """The method that goes on, where rules have changed it."""
        self._is_plain = not has_effect(verdict, command)
        # The command is let go: its frames may hold on to all that was read with them.
        self._verdict = msgspec.structs.replace(verdict, command=None)
        self.is_final = True
        """Is the verdict final?"""
        self.is_passing = self._is_plain
        """And is it that the command passes untouched?"""
        self.goes_on_alike = self._goes_on and not changes_traffic(
            msgspec.structs.replace(verdict, command=command), command
        )
        """Or that it goes on, with another method or its own, and no more?"""

    def count(self, times: int = 1) -> None:
        """So many more such commands were seen."""
        for count in self.counts:
            count.number += times

    def verdict_on(self, command: Command) -> Verdict:
        """The verdict, with this command in it."""
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
