"""Two sequences put beside each other."""

from __future__ import annotations

from collections import Counter
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.comparison import alignment
from amqproxy.comparison.alignment import Aligned, Item, aligned, matches
from amqproxy.comparison.difference import DifferenceKind
from tests.example_count import example_count

NAMES = 10
digests = st.lists(st.integers(0, 40), max_size=40)


def items(digests: list[int]) -> list[Item]:
    """Items that are alike where their last digit is, and have one of three names."""
    return [Item(each, each % NAMES, each % 3, place) for place, each in enumerate(digests)]


def differences(a: list[int], b: list[int]) -> list[Aligned]:
    return [each for each in aligned(items(a), items(b)) if each.kind is not None]


def counted(found: list[Aligned]) -> Counter[tuple[DifferenceKind | None, Item | None, Item | None]]:
    return Counter((each.kind, each.a, each.b) for each in found)


def mirrored(found: list[Aligned]) -> list[Aligned]:
    return [Aligned(each.kind and each.kind.mirrored, each.b, each.a) for each in found]


@pytest.fixture(params=[(4, 8, 2), (1024, 32_768, 128)], ids=["small windows", "usual windows"])
def _windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(("WINDOW", "MAX_WINDOW", "MAX_EDITS"), request.param, strict=True):
        monkeypatch.setattr(alignment, name, value)


@pytest.mark.usefixtures("_windows")
class TestInWindows:
    @given(digests)
    def test_nothing_differs_from_itself(self, a: list[int]) -> None:
        assert differences(a, a) == []

    @given(digests, digests)
    def test_all_is_there_once_and_says_what_is_so(self, a: list[int], b: list[int]) -> None:
        found = list(aligned(items(a), items(b)))
        assert sorted(each.a for each in found if each.a) == sorted(items(a))
        assert sorted(each.b for each in found if each.b) == sorted(items(b))
        for each in found:
            if each.a is None or each.b is None:
                assert each.kind is (DifferenceKind.MISSING if each.b is None else DifferenceKind.EXTRA)
            elif each.kind is DifferenceKind.CHANGED:
                assert each.a.digest != each.b.digest
                assert each.a.name == each.b.name or each.a.alike == each.b.alike
            else:
                assert each.a.digest == each.b.digest

    @given(digests, digests)
    def test_the_other_way_round_it_is_mirrored(self, a: list[int], b: list[int]) -> None:
        found = differences(a, b)
        assert counted(mirrored(found)) == counted(differences(b, a))


@given(digests, st.data())
def test_a_mutation_is_named_exactly(a: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(a)))
    inserted = [*a[:place], 50, *a[place:]]
    assert [(each.kind, each.b) for each in differences(a, inserted)] == [
        (DifferenceKind.EXTRA, Item(50, 0, 2, place)),
    ]
    changed = [*a[:place], 60, *a[place:]]
    assert [(each.kind, each.a, each.b) for each in differences(inserted, changed)] == [
        (DifferenceKind.CHANGED, Item(50, 0, 2, place), Item(60, 0, 0, place))
    ]
    other = data.draw(st.integers(0, len(a)))
    if a[place:other] or a[other:place]:
        moved = [*a[:other], 50, *a[other:]]
        kinds = {each.kind for each in differences(inserted, moved)}
        assert kinds == {DifferenceKind.MOVED}


@given(digests, st.sets(st.integers(0, 39), max_size=5))
def test_what_is_removed_is_missing(a: list[int], removed: set[int]) -> None:
    b = [each for place, each in enumerate(a) if place not in removed]
    found = differences(a, b)
    assert Counter(each.a.digest for each in found if each.a) == Counter(a) - Counter(b)
    assert {each.kind for each in found} <= {DifferenceKind.MISSING}


@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), max_size=30))
def test_the_longest_common_subsequence(a: list[int], b: list[int]) -> None:
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if x == y else max(lengths[i][j + 1], lengths[i + 1][j])
    found = matches(a, b)
    assert len(found) == lengths[-1][-1]
    assert all(a[i] == b[j] for i, j in found)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(found))


def test_many_that_are_alike_and_many_that_are_not() -> None:
    """Sequences that the exact way takes too long for: all the same but one in a hundred; nothing in common."""
    a = [each if each % 100 == 0 else -1 for each in range(50_000)]
    b = [each for each in a if each % 300]
    assert len(differences(a, b)) == 50_000 // 300 + 1
    assert len(differences(list(range(50_000)), list(range(50_000, 100_000)))) == 50_000


def test_no_more_is_held_than_windows() -> None:
    numbers = count()
    source = (Item(next(numbers), 0, 0, 0) for _ in range(1_000_000))
    other = iter(items(list(range(10))))
    for each in aligned(source, other):
        assert each.a is not None
        assert next(numbers) - each.a.digest < 2 * alignment.MAX_WINDOW
        break


@settings(max_examples=example_count(20))
@given(st.lists(st.integers(0, 3), min_size=200, max_size=400), st.lists(st.integers(0, 3), min_size=200, max_size=400))
def test_the_fast_way_finds_matches_too(a: list[int], b: list[int]) -> None:
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(alignment, "MAX_EDITS", 1)
        found = matches(a, b)
    assert all(a[i] == b[j] for i, j in found)
    assert found == sorted(set(found))
    assert len(found) > 50
