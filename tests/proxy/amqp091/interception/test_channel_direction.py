"""One direction of a channel: where in a content it is, what waits in it, and on whose account."""

from __future__ import annotations

from heapq import heappop

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicDeliver, BasicPublish, BasicQos
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection, ContentRest, PostponedDelivery, cost
from amqproxy.proxy.interception.queued_bytes import QueuedBytes, cost_of_own
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.proxy.timers import Timers
from amqproxy.rules.verdict import HoldAction, Stage, Verdict

METHOD_FRAME = Frame(encode_method(1, BasicPublish()))


def header(size: int) -> Frame:
    return Frame(encode_frame(HEADER, 1, ContentHeader(size).encode()))


def body(size: int) -> Frame:
    return Frame(encode_frame(BODY, 1, bytes(size)))


class Bank:
    """A flow of the server's, and the accounts that it counts for."""

    def __init__(self) -> None:
        self.share = MemoryShare(MemoryBudget())
        self.loads = {peer: QueuedBytes(self.share) for peer in Peer}
        self.gathering = QueuedBytes(self.share)
        self.direction = ChannelDirection(SERVER, self.loads, self.gathering)

    @property
    def octets(self) -> tuple[int, int, int]:
        """What waits on account of the server, on account of the client, and what is gathered."""
        assert self.share.used == sum([load.size for load in (*self.loads.values(), self.gathering)])
        return self.loads[SERVER].size, self.loads[CLIENT].size, self.gathering.size


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.mark.parametrize(
    ("frames", "is_complete"),
    [
        ([header(0)], [True]),
        ([header(5)], [False]),
        ([header(5), body(5)], [False, True]),
        ([header(5), body(2), body(3)], [False, False, True]),
        ([header(5), body(2), body(0)], [False, False, False]),
        ([body(5)], [False]),  # no header yet: nothing can be complete
        ([header(5), body(9)], [False, True]),
    ],
)
def test_when_a_content_is_complete(frames: list[Frame], is_complete: list[bool], bank: Bank) -> None:
    bank.direction.begin(ContentRest.PASSES)
    assert [bank.direction.advance(frame) for frame in frames] == is_complete
    bank.direction.begin(ContentRest.IS_SWALLOWED)
    assert bank.direction.skip(frames) is is_complete[-1]


@pytest.mark.parametrize(("rest", "is_mid"), [(ContentRest.PASSES, True), (ContentRest.IS_SWALLOWED, False)])
def test_only_what_passes_is_seen_in_part(rest: ContentRest, is_mid: bool, bank: Bank) -> None:
    bank.direction.begin(rest)
    assert (bank.direction.is_mid, bank.direction.rest) == (is_mid, rest)
    bank.direction.end()
    assert (bank.direction.is_mid, bank.direction.rest) == (False, ContentRest.PASSES)


def test_gathered_frames_count_until_they_are_taken(bank: Bank) -> None:
    frames = [METHOD_FRAME, header(5)]
    bank.direction.gather(list(frames), Stage.BODY)
    assert bank.octets == (0, 0, cost(frames))
    assert not bank.direction.gather_more(body(2))
    assert bank.direction.gather_more(body(3))
    assert bank.octets == (0, 0, cost([*frames, body(2), body(3)]))
    taken = bank.direction.take_gathered()
    assert [frame.raw for frame in taken] == [frame.raw for frame in (*frames, body(2), body(3))]
    assert (bank.octets, bank.direction.gathered) == ((0, 0, 0), [])


def test_what_waits_holds_up_what_comes(bank: Bank) -> None:
    direction = bank.direction
    assert not direction.is_held_up
    command = Command.received([METHOD_FRAME, header(5), body(5)])
    direction.wait(WaitingCommand(command, Verdict(command=command), cost(command.frames)))
    assert (direction.is_waiting, direction.is_held, direction.is_held_up) == (True, False, True)
    direction.enqueue(METHOD_FRAME, True)
    direction.enqueue(header(0), None)
    assert bank.octets == (cost(command.frames) + cost([METHOD_FRAME, header(0)]), 0, 0)
    waiting = direction.wake()
    assert waiting is not None
    assert waiting.original is command
    assert direction.wake() is None
    assert direction.is_held_up  # by what waits behind
    assert direction.dequeue() == (METHOD_FRAME, True)
    assert direction.dequeue()[1] is None
    assert (bank.octets, direction.is_held_up) == ((0, 0, 0), False)


def test_held_is_what_waits_for_somebodys_word(bank: Bank) -> None:
    command = Command.received([METHOD_FRAME])
    verdict = Verdict(command=command, hold=HoldAction("look", 60.0))
    bank.direction.wait(WaitingCommand(command, verdict, cost(command.frames)))
    assert bank.direction.is_held


def test_frames_of_the_proxy_count_for_the_receiver_that_caused_them(bank: Bank) -> None:
    first = Command(1, BasicDeliver("t", 1), NO_PROPERTIES, b"first")
    second = Command(1, BasicDeliver("t", 2), NO_PROPERTIES, b"the second")
    bank.direction.put_off(first, None)
    bank.direction.put_off(second, 2)
    assert bank.octets == (0, cost_of_own(first) + cost_of_own(second), 0)
    assert bank.direction.next_own() == (first, None)
    assert bank.direction.next_own() == (second, 2)
    assert bank.octets == (0, 0, 0)


def postponed(left: int, tag: int = 1) -> PostponedDelivery:
    return PostponedDelivery(Command(1, BasicDeliver("t", tag), NO_PROPERTIES, b"body"), tag, left)


def test_overtaken_often_enough(bank: Bank) -> None:
    soon, later = postponed(1), postponed(2, tag=2)
    bank.direction.postpone(soon)
    bank.direction.postpone(later)
    assert bank.octets == (soon.cost + later.cost, 0, 0)
    assert bank.direction.overtaken_by(BasicQos.index) == []
    assert bank.direction.overtaken_by(BasicDeliver.index) == [soon]
    assert (list(bank.direction.postponed), bank.octets) == ([later], (later.cost, 0, 0))
    assert bank.direction.overtaken_by(BasicDeliver.index) == [later]
    assert bank.octets == (0, 0, 0)


def test_what_is_sent_has_no_timer_any_more(bank: Bank) -> None:
    timers = Timers()
    done: list[str] = []
    each = postponed(1)
    each.timer = timers.at(5.0, lambda: done.append("late"))
    bank.direction.postpone(each)
    assert bank.direction.overtaken_by(BasicDeliver.index) == [each]
    assert not each.timer.is_due


STEPS = ("gather", "wait", "enqueue", "put off", "postpone")


@given(st.lists(st.sampled_from(STEPS), max_size=20))
def test_once_cleared_nothing_counts_any_more(steps: list[str]) -> None:
    bank = Bank()
    direction = bank.direction
    command = Command.received([METHOD_FRAME, header(5), body(5)])
    for step in steps:
        if step == "gather" and not direction.gathered:
            direction.gather([METHOD_FRAME], Stage.BODY)
        elif step == "wait" and not direction.is_waiting:
            direction.wait(WaitingCommand(command, Verdict(command=command), cost(command.frames)))
        elif step == "enqueue":
            direction.enqueue(body(9), None)
        elif step == "put off":
            direction.put_off(Command(1, BasicDeliver("t", 1), NO_PROPERTIES, b"body"), 1)
        elif step == "postpone":
            direction.postpone(postponed(3))
    assert any(bank.octets) == bool(set(steps))
    direction.clear()
    assert bank.octets == (0, 0, 0)
    assert not direction.is_held_up
    assert (direction.gathered, direction.stage, list(direction.insertions), list(direction.postponed)) == (
        [],
        Stage.NOTHING,
        [],
        [],
    )


def test_those_that_are_to_be_overtaken_are_not_looked_at_for_each_command(bank: Bank) -> None:
    waiting = [postponed(500, tag=number) for number in range(1, 501)]
    for each in waiting:
        bank.direction.postpone(each)
    looks = 0

    def counting(heap: list[object]) -> object:
        nonlocal looks
        looks += 1
        return heappop(heap)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr("amqproxy.proxy.amqp091.interception.channel_direction.heapq.heappop", counting)
        ready = [each for _ in range(500) for each in bank.direction.overtaken_by(BasicDeliver.index)]
    assert ready == waiting
    assert looks == 500
    assert bank.octets == (0, 0, 0)
