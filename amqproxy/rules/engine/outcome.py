"""Outcome of a command by a rule's verdict, in one word, and counts of outcomes."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.rules.verdict import Answer, Verdict


class Outcome:
    """Names of outcomes, by precedence: the first that applies counts. Plain strings, as they are keys of counters."""

    REFUSED = "refused"
    """Not forwarded; the sender receives an error."""
    DROPPED = "dropped"
    """Not forwarded; the sender receives no reply, or a success reply."""
    HELD = "held"
    DELAYED = "delayed"
    CHANGED = "changed"
    IMPAIRED = "impaired"
    """A fault is applied to its bytes, its order, or the connection."""
    INSERTED = "inserted"
    """Forwarded, and the proxy sends another command as well."""
    MIRRORED = "mirrored"
    REDACTED = "redacted"
    LOGGED = "logged"
    TAGGED = "tagged"
    ALLOWED = "allowed"
    """Forwarded without evaluating later rules."""
    SHADOW = "shadow"
    """Shadow mode: any other outcome, counted but not applied."""
    FAILED = "failed"
    """The rule itself failed."""


OUTCOMES: tuple[str, ...] = tuple(text for name, text in vars(Outcome).items() if name.isupper())
"""All outcomes; the values of a metric label."""

_ERRORS = frozenset({Answer.NACK, Answer.RETURN, Answer.REJECT, Answer.REQUEUE})


def outcome(verdict: Verdict, command: Command) -> str:
    """Return the outcome of a command."""
    if verdict.close is not None:
        return Outcome.REFUSED
    if verdict.command is None:
        return Outcome.REFUSED if verdict.answer in _ERRORS else Outcome.DROPPED
    if verdict.hold is not None:
        return Outcome.HELD
    if verdict.delay:
        return Outcome.DELAYED
    if verdict.command is not command:
        return Outcome.CHANGED
    if verdict.damage or verdict.behind or verdict.impairments:
        return Outcome.IMPAIRED
    if verdict.insertions:
        return Outcome.INSERTED
    if verdict.mirrored:
        return Outcome.MIRRORED
    if verdict.shown is not None:
        return Outcome.REDACTED
    if verdict.logged:
        return Outcome.LOGGED
    return Outcome.TAGGED if verdict.tags else Outcome.ALLOWED


class OutcomeCounter:
    """A counter."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class OutcomeCounts:
    """Number of each outcome of a rule. `last_failure` describes its last failure, or is ""."""

    __slots__ = ("_counts", "last_failure")

    def __init__(self) -> None:
        self._counts: dict[str, OutcomeCounter] = {}
        self.last_failure = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutcomeCounts) and self.verdicts == other.verdicts

    __hash__ = None  # type: ignore[assignment]

    def of(self, outcome: str) -> OutcomeCounter:
        """Return the counter of an outcome."""
        count = self._counts.get(outcome)
        if count is None:
            count = self._counts[outcome] = OutcomeCounter()
        return count

    def fail(self, how: str) -> None:
        """Count a failure of the rule."""
        self.of(Outcome.FAILED).number += 1
        self.last_failure = how

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of each outcome by name, without zeros."""
        return {outcome: count.number for outcome, count in self._counts.items() if count.number}

    @property
    def hits(self) -> int:
        """Number of times that the rule acted."""
        silent = (Outcome.SHADOW, Outcome.FAILED)
        return sum(count.number for outcome, count in self._counts.items() if outcome not in silent)

    @property
    def shadow_hits(self) -> int:
        """Number of times that the rule would have acted, in shadow mode."""
        return self.verdicts.get(Outcome.SHADOW, 0)

    @property
    def errors(self) -> int:
        """Number of failures."""
        return self.verdicts.get(Outcome.FAILED, 0)
