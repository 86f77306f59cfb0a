"""The reach of a policy before it is set."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.dashboard.policy_reach import MAX_NAMED, ReachCounter, trial_of

pytestmark = pytest.mark.once


def policy(name: str, pattern: str = ".*", *, priority: int = 0, apply_to: str = "all") -> dict[str, Any]:
    return {"name": name, "pattern": pattern, "apply-to": apply_to, "priority": priority}


def queue(name: str, held_by: str | None = None, kind: str = "classic") -> dict[str, Any]:
    return {"name": name, "type": kind, "policy": held_by, "operator_policy": None}


def counted(trial: dict[str, Any], others: list[dict[str, Any]], *queues: dict[str, Any]) -> dict[str, Any]:
    counter = ReachCounter(trial_of(trial, is_operator=False), others)
    counter.add_queues(queues)
    reach = counter.reach
    names = ("gained", "kept", "lost", "beaten")
    return {name: getattr(reach, name).objects for name in names if getattr(reach, name).count}


@pytest.mark.parametrize(
    ("trial", "others", "held_by", "outcome"),
    [
        (policy("new"), [], None, {"gained": None}),
        (policy("new", "^other"), [], None, {}),
        (policy("new", priority=1), [policy("old")], "old", {"gained": "old"}),
        (policy("new"), [policy("old")], "old", {"beaten": "old"}),  # of one priority, the older applies
        (policy("new"), [policy("old", priority=1)], "old", {"beaten": "old"}),
        (policy("mine"), [policy("mine")], "mine", {"kept": None}),
        (policy("mine", "^other"), [policy("mine")], "mine", {"lost": None}),
        (policy("mine"), [policy("mine", priority=9), policy("old", priority=1)], "mine", {"lost": "old"}),
        (policy("mine"), [policy("mine", priority=9), policy("old", "^x", priority=1)], "mine", {"kept": None}),
        (policy("new", apply_to="quorum_queues"), [], None, {}),
        (policy("new", apply_to="queues"), [], None, {"gained": None}),
        (policy("new", apply_to="exchanges"), [], None, {}),
    ],
)
def test_a_queue(
    trial: dict[str, Any], others: list[dict[str, Any]], held_by: str | None, outcome: dict[str, str | None]
) -> None:
    other = {name: {} if each is None else {"other": each} for name, each in outcome.items()}
    expected = {name: [{"kind": "queue", "name": "orders"} | each] for name, each in other.items()}
    assert counted(trial, others, queue("orders", held_by)) == expected


def test_exchanges_are_counted_too() -> None:
    counter = ReachCounter(trial_of(policy("new", "^amq"), is_operator=False), [])
    counter.add_exchanges([{"name": "amq.topic", "policy": None}, {"name": "orders", "policy": None}])
    assert counter.reach.gained.objects == [{"kind": "exchange", "name": "amq.topic"}]


def test_a_policy_with_a_pattern_too_large_for_the_trial_beats_nothing_here() -> None:
    others = [policy("mine", priority=9), policy("old", "x" * 300, priority=1)]
    assert list(counted(policy("mine"), others, queue("orders", "mine"))) == ["kept"]


def test_all_are_counted_and_the_first_are_named() -> None:
    counter = ReachCounter(trial_of(policy("new"), is_operator=True), [])
    counter.add_queues(queue(str(number)) for number in range(MAX_NAMED + 5))
    assert (counter.reach.gained.count, len(counter.reach.gained.objects)) == (MAX_NAMED + 5, MAX_NAMED)


@pytest.mark.parametrize(("pattern", "reason"), [("(", "missing"), ("x" * 300, "256 are the most")])
def test_a_wrong_pattern_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        trial_of(policy("new", pattern), is_operator=False)
