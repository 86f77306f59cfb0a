"""Clients pass at the rate, addresses in turn, and one address cannot keep others out."""

from __future__ import annotations

import pytest

from amqproxy.proxy.admission_queue import AdmissionQueue, Outcome, QueueFull, Waiting

RATE = 8.0
"""Exact in binary, as its times are."""


def taken(queue: AdmissionQueue, now: float) -> list[str]:
    found = []
    while (client := queue.take(now)) is not None:
        found.append(client.address)
    return found


def filled(*addresses: str, most: int = 100) -> AdmissionQueue:
    """A queue whose burst is used up at the time 0, with clients of these addresses."""
    queue = AdmissionQueue(RATE, most)
    while queue.admits(0.0):
        pass
    for each in addresses:
        queue.enter(Waiting(each))
    return queue


def test_single_clients_never_wait() -> None:
    queue = AdmissionQueue(1.0, 100)
    assert all(queue.admits(second) for second in range(5))


def test_a_burst_is_a_tenth_of_a_second() -> None:
    queue = AdmissionQueue(100.0, 100)
    assert sum(queue.admits(5.0, 2) for _ in range(100)) == 20


def test_clients_pass_at_the_rate() -> None:
    queue = filled(*"a" * 20)
    assert [len(taken(queue, time / RATE)) for time in range(5)] == [0, 1, 1, 1, 1]


def test_who_comes_does_not_overtake() -> None:
    queue = filled("a")
    assert not queue.admits(100.0, RATE)
    assert taken(queue, 100.0) == ["a"]


def test_a_pause_gives_no_right_to_more_than_a_burst() -> None:
    queue = filled(*"a" * 20)
    assert len(taken(queue, 1000.0)) == 1


def test_addresses_take_turns() -> None:
    queue = filled(*"aaaa", *"bb", "c")
    assert "".join(taken(queue, time / RATE)[0] for time in range(1, 8)) == "abcabaa"


def test_who_leaves_is_passed_over() -> None:
    queue = filled("a")
    gone = Waiting("a")
    queue.enter(gone)
    queue.enter(Waiting("b"))
    queue.leave(gone)
    queue.leave(gone)
    assert [taken(queue, time / RATE) for time in range(1, 4)] == [["a"], ["b"], []]
    assert len(queue) == 0


def test_a_full_queue_refuses_the_address_with_the_most_clients() -> None:
    queue = filled(*"aaa", most=3)
    with pytest.raises(QueueFull):
        queue.enter(Waiting("a"))
    queue.enter(Waiting("b"))
    assert (len(queue), queue.refused) == (3, 2)
    assert "".join(taken(queue, time / RATE)[0] for time in range(1, 4)) == "aba"


def test_a_full_queue_of_equals_refuses_who_comes() -> None:
    queue = filled(*"abc", most=3)
    with pytest.raises(QueueFull):
        queue.enter(Waiting("d"))


def test_the_refused_client_is_told() -> None:
    told = []
    queue = filled("a", most=2)
    newest = Waiting("a", lambda: told.append("a"))
    queue.enter(newest)
    queue.enter(Waiting("b"))
    assert (told, newest.outcome) == (["a"], Outcome.REFUSED)


def test_who_has_hung_up_takes_no_turn() -> None:
    queue = filled()
    gone = Waiting("a", is_gone=lambda: True)
    queue.enter(gone)
    queue.enter(Waiting("b"))
    assert taken(queue, 1 / RATE) == ["a", "b"]
    assert gone.outcome is Outcome.DEPARTED
    assert queue.admitted == 2
