"""Frames that are held back."""

from amqproxy.amqp010.commands import ExecutionSync, QueuePurge
from amqproxy.amqp010.frame import Frame
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp010.early_frames import EarlyFrames
from amqproxy.taps.trace.budget import Budget
from tests.taps.trace.amqp010.traced import frames_of

(EARLY,) = frames_of(1, QueuePurge(queue="q"))
(OTHER,) = frames_of(1, ExecutionSync())


def is_early(sender: Peer, frame: Frame) -> bool:
    return frame is EARLY


def test_a_frame_holds_up_those_behind_it_and_no_others() -> None:
    held = EarlyFrames(Budget(10_000), is_early)
    assert held.may_pass(CLIENT, OTHER)
    assert not held.may_pass(CLIENT, EARLY)
    assert held.hold(CLIENT, EARLY, 1)
    assert not held.may_pass(CLIENT, OTHER)
    assert held.may_pass(SERVER, OTHER)
    assert held.next() is None


def test_of_two_that_wait_for_each_other_the_earlier_goes() -> None:
    budget = Budget(10_000)
    held = EarlyFrames(budget, is_early)
    held.hold(CLIENT, EARLY, 2)
    held.hold(SERVER, EARLY, 1)
    found = held.next()
    assert found is not None
    assert found[0] is SERVER
    assert held.next() is None
    assert held.next_at_the_end() is not None
    assert held.count == 0
    assert budget.left == budget.most


def test_it_is_bounded() -> None:
    assert not EarlyFrames(Budget(10), is_early).hold(CLIENT, EARLY, 1)
