"""Requests of a session of 0-10 that await their replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.taps.metering.amqp010.open_requests import OpenRequests, complete
from amqproxy.taps.trace.budget import Budget


class Observed:
    """Notes what becomes of a command."""

    def __init__(self) -> None:
        self.fates: list[str] = []

    def complete(self) -> None:
        self.fates.append("completed")

    def drop(self) -> None:
        self.fates.append("dropped")


def test_what_is_answered_is_no_longer_waited_for() -> None:
    room = Budget(3)
    requests = OpenRequests(room)
    for position in (5, 3, 4, 9):
        requests.add(position, f"n{position}", float(position))
    assert (len(requests), room.left) == (3, 0), "for the last there is no room"
    requests.add(4, "again", 7.0)
    assert requests.settle(4, 100) == [("again", 7.0, None, b""), ("n5", 5.0, None, b"")]
    assert requests.settle(4, 100) == requests.settle(9, 2) == []
    assert (len(requests), room.left) == (1, 2)
    requests.clear()
    assert (len(requests), room.left) == (0, 3)


@given(st.lists(st.integers(-5, 20)), st.integers(-5, 20), st.integers(-5, 20))
def test_a_range_has_all_between_its_ends(positions: list[int], first: int, last: int) -> None:
    requests = OpenRequests(Budget(100))
    for position in positions:
        requests.add(position, str(position), 0.0)
    wanted = sorted({each for each in positions if first <= each <= last})
    assert [int(name) for name, *_ in requests.settle(first, last)] == wanted
    assert len(requests) == len(set(positions)) - len(wanted)


def test_what_is_observed_is_dropped_or_handed_over_but_once() -> None:
    requests = OpenRequests(Budget(3))
    replaced, answered, refused, ended, beyond = seen = [Observed() for _ in range(5)]
    for position, observed in ((1, replaced), (1, answered), (2, refused), (3, ended), (4, beyond)):
        requests.add(position, "queue.declare", 0.0, observed)
    assert [each.observed for each in requests.settle(1, 1)] == [answered]
    requests.refuse(2)
    requests.refuse(9)
    requests.clear()
    assert [each.fates for each in seen] == [["dropped"], [], ["dropped"], ["dropped"], ["dropped"]]


def test_where_an_observer_fails_it_keeps_nothing_of_the_rest() -> None:
    ended: list[str] = []

    class Observed:
        def __init__(self, name: str) -> None:
            self._name = name

        def complete(self) -> None:
            ended.append(f"{self._name} completed")
            if self._name == "b":
                raise ValueError(self._name)

        def drop(self) -> None:
            ended.append(f"{self._name} dropped")

    requests = OpenRequests(Budget(10))
    for position, name in enumerate("abcd"):
        requests.add(position, name, 0.0, Observed(name))
    with pytest.raises(ValueError, match="b"):
        complete(requests.settle(0, 3))
    assert ended == ["a completed", "b completed", "c dropped", "d dropped"]
