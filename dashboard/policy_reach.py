"""Reach of a policy before it is set: the queues and exchanges that it would apply to, gain and lose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from amqproxy.rules.matching.name_pattern import NamePattern, bounded_name_pattern

Entry = dict[str, Any]

KINDS = {"classic": "classic_queues", "quorum": "quorum_queues", "stream": "streams"}
"""Values of `apply-to` for one type of queue."""

MAX_NAMED = 100
"""Maximum number of objects that are named in each list; all are counted."""


class Trial(NamedTuple):
    """The part of a policy that decides what it applies to."""

    name: str
    pattern: NamePattern
    apply_to: str
    priority: int
    is_operator: bool

    @property
    def key(self) -> str:
        """The key of a queue's entry that names the policy of this kind that applies."""
        return "operator_policy" if self.is_operator else "policy"

    def matches(self, kind: str, name: str) -> bool:
        """Whether an object of a kind, `exchanges` or a value of `KINDS`, matches."""
        general = "exchanges" if kind == "exchanges" else "queues"
        return self.apply_to in ("all", general, kind) and self.pattern.fits(name)


def trial_of(entry: Entry, *, is_operator: bool) -> Trial:
    """Return the trial of a policy's entry; `ValueError` for a pattern that is wrong or too large."""
    pattern = bounded_name_pattern(entry["pattern"])
    return Trial(entry["name"], pattern, entry["apply-to"], entry["priority"], is_operator)


class Named(msgspec.Struct):
    """Objects of one outcome, of which the first are named."""

    count: int = 0
    objects: list[Entry] = []

    def add(self, kind: str, name: str, other: str | None) -> None:
        """Add an object, and the other policy that applies, or applied, to it."""
        self.count += 1
        if len(self.objects) < MAX_NAMED:
            self.objects.append({"kind": kind, "name": name} | ({} if other is None else {"other": other}))


class Reach(msgspec.Struct):
    """Objects by what the policy would do: apply newly, still, or no longer, or match in vain.

    It matches in vain where a policy of higher priority applies, or one of the same priority that is older.
    """

    gained: Named = msgspec.field(default_factory=Named)
    kept: Named = msgspec.field(default_factory=Named)
    lost: Named = msgspec.field(default_factory=Named)
    beaten: Named = msgspec.field(default_factory=Named)


class ReachCounter:
    """Counts what a trial would reach; `others` are the policies of the virtual host, the oldest first."""

    def __init__(self, trial: Trial, others: Sequence[Entry]) -> None:
        self.reach = Reach()
        self._trial = trial
        self._ages = {each["name"]: age for age, each in enumerate(others)}
        self._priorities = {each["name"]: each["priority"] for each in others}
        stronger = [each for each in others if each["name"] != trial.name and self._beats(each["name"])]
        self._stronger = [_sound(each, is_operator=trial.is_operator) for each in stronger]

    def add_queues(self, entries: Iterable[Entry]) -> None:
        """Count queues."""
        for each in entries:
            self._add("queue", KINDS.get(each["type"], "queues"), each["name"], each[self._trial.key])

    def add_exchanges(self, entries: Iterable[Entry]) -> None:
        """Count exchanges; no operator policy applies to them."""
        for each in entries:
            self._add("exchange", "exchanges", each["name"], each["policy"])

    def _add(self, object_kind: str, kind: str, name: str, holder: str | None) -> None:
        trial, reach = self._trial, self.reach
        is_holder = holder == trial.name
        if not trial.matches(kind, name):
            if is_holder:
                reach.lost.add(object_kind, name, None)
            return
        beaten_by = holder if holder is not None and not is_holder and self._beats(holder) else None
        if is_holder:
            beaten_by = next((each.name for each in self._stronger if each and each.matches(kind, name)), None)
        if beaten_by is not None:
            (reach.lost if is_holder else reach.beaten).add(object_kind, name, beaten_by)
        elif is_holder:
            reach.kept.add(object_kind, name, None)
        else:
            reach.gained.add(object_kind, name, holder)

    def _beats(self, name: str) -> bool:
        """Whether the policy of this name applies instead of the trial where both match."""
        own_age = self._ages.get(self._trial.name, len(self._ages))
        priority = self._priorities.get(name, 0)
        return (priority, -self._ages.get(name, -1)) > (self._trial.priority, -own_age)


def _sound(entry: Entry, *, is_operator: bool) -> Trial | None:
    """Return the trial of another policy; None for a pattern that is too large here."""
    try:
        return trial_of(entry, is_operator=is_operator)
    except ValueError:
        return None
