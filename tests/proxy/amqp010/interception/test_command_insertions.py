"""Positions of commands on both legs, where ours stand between; against a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.proxy.amqp010.interception.command_insertions import CommandInsertions


def test_none() -> None:
    insertions = CommandInsertions()
    assert not insertions
    assert insertions.to_target(5) == 5
    assert list(insertions.to_sources(range(2, 4))) == [range(2, 4)]
    assert list(insertions.to_targets(range(2, 4))) == [range(2, 4)]
    assert list(insertions.to_targets(range(0))) == []


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_against_a_list(is_ours: list[bool], first: int, size: int, forgotten: int) -> None:
    """`is_ours` are the commands that the receiver gets, in order."""
    insertions, targets = CommandInsertions(), []
    for place, ours in enumerate(is_ours):
        if ours:
            insertions.add(place)
        else:
            targets.append(place)
    insertions.forget(min(forgotten, len(targets)))
    live = range(min(forgotten, len(targets)), len(targets))
    for source in live:
        assert insertions.to_target(source) == targets[source]
    received = range(first, min(first + size, len(is_ours)))
    known = [place for place in received if place in targets and targets.index(place) in live]
    if live and received and received.start >= targets[live.start]:
        found = [source for ids in insertions.to_sources(received) for source in ids]
        assert found == [targets.index(place) for place in known]
        sources = range(min(found), max(found) + 1) if found else range(0)
        mapped = [target for ids in insertions.to_targets(sources) for target in ids]
        assert mapped == [targets[source] for source in sources]


def test_ours_next_to_others_belong_to_them() -> None:
    insertions = CommandInsertions()
    for place in (1, 2, 4):
        insertions.add(place)
    assert [list(each) for each in insertions.to_targets(range(1, 3), with_ours=True)] == [[1, 2, 3, 4, 5]]
    assert [list(each) for each in insertions.to_targets(range(3))] == [[0], [3], [5]]
    assert len(insertions) == 3
