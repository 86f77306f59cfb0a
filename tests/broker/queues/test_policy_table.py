"""The policy that applies is found by the letters with which a pattern begins as by comparing all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.broker.queues.policies import Policy, make_policy
from amqproxy.broker.queues.policy_table import PolicyTable, literal_prefix
from amqproxy.broker.vhost import MOST_COMPARED
from tests.broker.estate import Estate

PATTERNS = [
    "",
    "^",
    "^a",
    "^ab",
    "^ab$",
    "^a*b",
    "^ab?",
    r"^a\.b",
    r"^\d",
    "a",
    "b$",
    "^a|b",
    "^(?!ab)a",
    "^a+b",
    "^é",
    "^a{0}b",
]
NAMES = st.text("ab.1é\udc80", max_size=4)


def policy(name: str, pattern: str, priority: int = 0) -> Policy:
    return make_policy(name, pattern, {"max-length": 1}, priority)


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("^orders", "orders"),
        (r"^orders\.eu$", "orders.eu"),
        ("^orders.*", "orders"),
        ("^orders*", "order"),
        ("^orders{2}", "order"),
        ("^orders+", "orders"),
        (r"^orders\d", "orders"),
        ("^(orders|stock)", ""),
        ("^orders|stock", ""),
        ("^(?!amq)orders", ""),
        ("orders", ""),
        ("^", ""),
        ("^\\", ""),
    ],
)
def test_letters_that_are_certain(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix


@given(
    st.lists(st.tuples(st.sampled_from("pqrs"), st.none() | st.tuples(st.sampled_from(PATTERNS), st.integers(0, 2)))),
    st.lists(NAMES),
)
def test_it_finds_what_comparing_all_finds(changes: list[tuple[str, tuple[str, int] | None]], names: list[str]) -> None:
    table, known = PolicyTable(), dict[str, Policy]()
    for name, change in changes:
        if change is None:
            assert table.take(name) == known.pop(name, None)
        else:
            known[name] = policy(name, *change)
            table.put(known[name])
    assert dict(table) == known
    for name in names:
        matching = [each for each in known.values() if each.matches("queues", name)]
        assert table.highest("queues", name) == max(matching, key=lambda each: each.priority, default=None)


def test_many_changes_are_applied_together() -> None:
    """Each alone would have a job that goes through all queues."""
    estate = Estate()
    vhost = estate.vhost
    for number in range(100):
        estate.queue(f"q{number}")
    vhost.work.quantum.step = 10
    for number in range(2 * MOST_COMPARED):
        vhost.work.quantum.begin()
        vhost.set_policy(policy(f"p{number}", "^q", number), 0.0)
        assert len(vhost.work) == 1
    while len(vhost.work):
        vhost.work.go_on(0.0)
    assert {each.policy_names[0] for each in vhost.queues.values()} == {f"p{2 * MOST_COMPARED - 1}"}
