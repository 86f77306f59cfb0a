"""What becomes of a command by a rule's verdict, in one word; and how often that was so."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.rules.verdict import Answer, Verdict


class Outcome:
    """Of several things that become of a command, the first in this order; plain texts, since they are counted by."""

    REFUSED = "refused"
    """It is not sent on, and its sender receives an error."""
    DROPPED = "dropped"
    """It is not sent on, and its sender receives nothing, or a success reply."""
    HELD = "held"
    DELAYED = "delayed"
    CHANGED = "changed"
    IMPAIRED = "impaired"
    """A fault is done to its bytes, to its place among others, or to the connection."""
    INSERTED = "inserted"
    """It goes on, and the proxy sends something besides."""
    MIRRORED = "mirrored"
    REDACTED = "redacted"
    LOGGED = "logged"
    TAGGED = "tagged"
    ALLOWED = "allowed"
    """It goes on, and no later rule is asked."""
    SHADOW = "shadow"
    """One of all these would have become of it, if the rule were not in shadow mode."""
    FAILED = "failed"
    """The rule itself failed."""


OUTCOMES: tuple[str, ...] = tuple(text for name, text in vars(Outcome).items() if name.isupper())
"""All of them, which are the values of a label."""

_ERRORS = frozenset({Answer.NACK, Answer.RETURN, Answer.REJECT, Answer.REQUEUE})


def outcome(verdict: Verdict, command: Command) -> str:
    """What becomes of a command."""
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
    """A number that goes up."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class OutcomeCounts:
    """How often each outcome was that of a rule. `last_failure` is the rule's last failure, if there was one."""

    __slots__ = ("_counts", "last_failure")

    def __init__(self) -> None:
        self._counts: dict[str, OutcomeCounter] = {}
        self.last_failure = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutcomeCounts) and self.verdicts == other.verdicts

    __hash__ = None  # type: ignore[assignment]

    def of(self, outcome: str) -> OutcomeCounter:
        """What counts that outcome, from now on."""
        count = self._counts.get(outcome)
        if count is None:
            count = self._counts[outcome] = OutcomeCounter()
        return count

    def fail(self, how: str) -> None:
        """The rule has failed once more."""
        self.of(Outcome.FAILED).number += 1
        self.last_failure = how

    @property
    def verdicts(self) -> dict[str, int]:
        """How often each outcome was, by its name; those that never were are left out."""
        return {outcome: count.number for outcome, count in self._counts.items() if count.number}

    @property
    def hits(self) -> int:
        """How often the rule acted."""
        silent = (Outcome.SHADOW, Outcome.FAILED)
        return sum(count.number for outcome, count in self._counts.items() if outcome not in silent)

    @property
    def shadow_hits(self) -> int:
        """How often it would have, in shadow mode."""
        return self.verdicts.get(Outcome.SHADOW, 0)

    @property
    def errors(self) -> int:
        """How often it failed."""
        return self.verdicts.get(Outcome.FAILED, 0)
