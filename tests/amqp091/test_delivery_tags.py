"""Delivery tags that are open, and how they are settled."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amqp091 import delivery_tags
from tests.amqp091.delivery_tags import DeliveryTags


def issued(*tags: int) -> DeliveryTags:
    made = DeliveryTags()
    for tag in tags:
        made.issue(tag, f"to {tag}")
    return made


@pytest.mark.parametrize(
    ("tag", "multiple", "settled"),
    [(1, False, [1]), (4, False, [4]), (4, True, [1, 2, 4]), (0, True, [1, 2, 4, 7]), (7, True, [1, 2, 4, 7])],
)
def test_settle(tag: int, multiple: bool, settled: list[int]) -> None:
    tags = issued(1, 2, 4, 7)
    assert tags.settle(tag, multiple=multiple) == [(number, f"to {number}") for number in settled]
    assert [number for number in range(9) if number in tags] == sorted({1, 2, 4, 7} - set(settled))


@pytest.mark.parametrize(("tag", "multiple"), [(0, False), (3, False), (3, True), (8, True)])
def test_a_tag_that_is_not_open_cannot_be_settled(tag: int, multiple: bool) -> None:
    tags = issued(1, 2, 4)
    with pytest.raises(KeyError):
        tags.settle(tag, multiple=multiple)
    assert len(tags) == 3


def test_all_of_none_can_be_settled() -> None:
    assert issued().settle(0, multiple=True) == []


@pytest.mark.parametrize("tag", [0, 1, 5])
def test_tags_count_up(tag: int) -> None:
    with pytest.raises(ValueError, match=f"delivery tag {tag} after 5"):
        issued(1, 5).issue(tag)


def test_a_rollback_opens_tags_again_in_their_places() -> None:
    tags = issued(1, 2, 3, 4)
    settled = tags.settle(2) + tags.settle(4)
    tags.restore(settled)
    assert tags.settle(0, multiple=True) == [(n, f"to {n}") for n in (1, 2, 3, 4)]


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_tags, "MAX_OUTSTANDING", 3)
    tags = issued(1, 2, 3)
    with pytest.raises(OverflowError, match="more than 3"):
        tags.issue(4)
    assert tags.last == 3
    tags.settle(1)
    tags.issue(4)


def test_settling_one_after_the_other_takes_time_in_proportion() -> None:
    """100,000 single settlements `multiple`: an ordinary dict takes minutes for these."""
    tags = issued(*range(1, 100_001))
    began = time.process_time()
    for tag in range(1, 100_001):
        tags.settle(tag, multiple=True)
    assert time.process_time() - began < 5
    assert len(tags) == 0


@given(st.lists(st.tuples(st.sampled_from(["issue", "one", "multiple"]), st.integers(0, 30)), max_size=60))
def test_as_a_plain_list_would(steps: list[tuple[str, int]]) -> None:
    tags, model = DeliveryTags(), []
    for step, tag in steps:
        if step == "issue":
            tags.issue(tags.last + 1)
            model.append(tags.last)
            continue
        multiple = step == "multiple"
        up_to = max(model, default=0) if multiple and tag == 0 else tag
        expected = [n for n in model if n <= up_to] if multiple else [tag]
        if tag not in model and not (multiple and tag == 0):
            with pytest.raises(KeyError):
                tags.settle(tag, multiple=multiple)
            continue
        assert [number for number, _ in tags.settle(tag, multiple=multiple)] == expected
        model = [n for n in model if n not in expected]
    assert len(tags) == len(model)
