"""Open tags as ranges, against the codec's own, which keep each by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.open_tags import OpenTags, Span
from tests.amqp091.delivery_tags import DeliveryTags


def tags_of(spans: tuple[Span, ...]) -> list[int]:
    return [tag for span in spans for tag in range(span.first, span.last + 1)]


def opened(*reads: list[int]) -> OpenTags:
    """Each list is the tags of one read."""
    tags = OpenTags(Budget(100))
    for ts_ns, read in enumerate(reads):
        for tag in read:
            tags.add(tag, ts_ns)
    return tags


def test_tags_of_one_read_are_one_range() -> None:
    tags = opened([1, 2, 3], [4], [6, 7])
    assert (tags.count, tags.first, tags.last) == (6, 1, 7)
    assert tags.clear() == (Span(1, 3, 0), Span(4, 4, 1), Span(6, 7, 2))
    assert (tags.count, tags.first, tags.last) == (0, None, 7)


def test_consumers_have_ranges_of_their_own() -> None:
    tags = OpenTags(Budget(100))
    tags.add(1, 0, "a")
    tags.add(2, 0, "b")
    tags.add(3, 0, "b")
    assert tags.clear() == (Span(1, 1, 0, "a"), Span(2, 3, 0, "b"))


@pytest.mark.parametrize(
    ("tag", "settled", "left"),
    [(0, [], [2, 3, 4, 6]), (3, [2, 3], [4, 6]), (5, [2, 3, 4], [6]), (9, [2, 3, 4, 6], [])],
)
def test_all_up_to_a_tag_that_need_not_be_open(tag: int, settled: list[int], left: list[int]) -> None:
    tags = opened([2, 3, 4], [6])
    assert tags_of(tags.settle_up_to(tag)) == settled
    assert tags_of(tags.clear()) == left


def test_the_newest_range_is_never_forgotten() -> None:
    tags = opened([1], [2], [3])
    assert tags_of(tags.forget_older_half()) == [1]
    assert tags_of(tags.forget_older_half()) == [2]
    assert tags_of(tags.forget_older_half()) == []
    assert 3 in tags
    assert 2 not in tags


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "add", "skip", "one", "multiple", "up to", "rollback", "forget", "clear"]),
            st.integers(0, 30),
            st.integers(0, 3),
        ),
        max_size=60,
    )
)
def test_as_one_entry_for_each_tag_would(steps: list[tuple[str, int, int]]) -> None:
    budget = Budget(1000)
    tags, model = OpenTags(budget), DeliveryTags()
    times: dict[int, tuple[int, str]] = {}
    ts_ns = 0
    for step, tag, other in steps:
        if step in ("add", "skip"):
            ts_ns += other % 2
            tag = tags.last + 1 + (other if step == "skip" else 0)
            times[tag] = ts_ns, f"c{other % 2}"
            tags.add(tag, ts_ns, times[tag][1])
            model.issue(tag)
        elif step in ("one", "multiple", "rollback"):
            before = tags.settle(tag, multiple=step == "multiple")
            try:
                settled = model.settle(tag, multiple=step == "multiple")
            except KeyError:
                assert before is None
            else:
                assert before is not None
                assert tags_of(before) == [each for each, _ in settled]
                assert all(
                    (span.ts_ns, span.consumer_tag) == times[each] for span in before for each in tags_of((span,))
                )
                if step == "rollback":
                    tags.reopen(before)
                    model.restore(settled)
        elif step == "up to":
            expected = [each for each in range(tag + 1) if each in model]
            assert tags_of(tags.settle_up_to(tag)) == expected
            for each in expected:
                model.settle(each)
        else:
            for each in tags_of(tags.forget_older_half() if step == "forget" else tags.clear()):
                model.settle(each)
        assert tags.count == len(model)
        assert [each for each in range(tags.last + 2) if each in tags] == [
            each for each in range(tags.last + 2) if each in model
        ]
    held = 1000 - budget.left
    assert held == len(tags.clear())
    assert budget.left == 1000
