"""Ranges of open transfers, beside a plain dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.taps.trace.amqp010.open_transfers import OpenTransfers, TransferRun, spans_of
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.open_tags import Span


def numbers(runs: list[TransferRun]) -> list[tuple[int, int]]:
    """Each transfer's position and number."""
    return [(run.first + each, run.number + each) for run in runs for each in range(run.size)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 3), st.integers(0, 2)),
        st.tuples(st.just("settle"), st.integers(0, 40), st.integers(1, 10)),
        st.tuples(st.just("up to"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
        st.tuples(st.just("forget"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_it_does_what_a_dictionary_does(steps: list[tuple[str, int, int]]) -> None:
    budget = Budget(1000)
    transfers, plain = OpenTransfers(budget), dict[int, int]()
    position, number, settled = 0, 0, list[TransferRun]()
    for name, one, two in steps:
        match name:
            case "add":
                position, number = position + one, number + 1
                assert transfers.add(position, number, two, "d")
                plain[position] = number
            case "settle":
                settled = transfers.settle(range(one, one + two))
                expected = [each for each in plain.items() if one <= each[0] < one + two]
                assert numbers(settled) == expected
                for each, _ in expected:
                    del plain[each]
            case "up to":
                settled = transfers.settle_up_to(one)
                assert numbers(settled) == [each for each in plain.items() if each[0] <= one]
                plain = {each: found for each, found in plain.items() if each > one}
            case "reopen":
                transfers.reopen(settled)
                plain = dict(sorted({**plain, **dict(numbers(settled))}.items()))
                settled = []
            case "forget":
                for each, _ in numbers(transfers.forget_older_half()):
                    del plain[each]
        assert transfers.count == len(plain)
        assert all(each in transfers for each in plain)
    assert numbers(transfers.clear()) == list(plain.items())
    assert budget.left == budget.most


def test_what_is_sent_again_is_not_opened_twice() -> None:
    transfers = OpenTransfers(Budget(10))
    assert transfers.add(5, 1, 0)
    assert not transfers.add(5, 2, 0)


def test_spans_have_numbers_and_not_positions() -> None:
    transfers = OpenTransfers(Budget(10))
    for position, number in ((4, 1), (5, 2), (9, 3)):
        transfers.add(position, number, 7, "d")
    assert spans_of(transfers.clear()) == (Span(1, 2, 7, "d"), Span(3, 3, 7, "d"))
