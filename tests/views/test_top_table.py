"""The heaviest of many, against counting all of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.views.top_table import TopTable
from tests.example_count import example_count


@settings(max_examples=example_count(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9))), st.integers(1, 50))
def test_weights_are_true_or_too_large_by_less_than_their_error(added: list[tuple[int, int]], most: int) -> None:
    table: TopTable[int] = TopTable(1, most=most)
    true: Counter[int] = Counter()
    for key, weight in added:
        table.add(key, weight, 1)
        true[key] += weight
    found = dict(table.top(100))
    assert len(found) == len(table) <= most
    for key, counted in found.items():
        assert 0 <= counted.weight - true[key] <= counted.error
    assert sum(each.weight for each in found.values()) == sum(true.values())
    lightest = min((each.weight for each in found.values()), default=0)
    assert all(key in found for key, weight in true.items() if weight > lightest)
    if table.is_exact:
        assert {key: counted.weight for key, counted in found.items()} == true
        assert [counted.others[0] for counted in found.values()] == [Counter(k for k, _ in added)[key] for key in found]
    assert [counted.weight for _, counted in table.top(3)] == sorted(
        (each.weight for each in found.values()), reverse=True
    )[:3]
