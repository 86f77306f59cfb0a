"""Which commands are complete, and what a client is sent of that."""

from __future__ import annotations

from amqproxy.amqp010.assembly import AssemblyReader
from amqproxy.amqp010.command_ids import CommandIds, id_of
from amqproxy.amqp010.commands import MessageAccept
from amqproxy.amqp010.controls import SessionCommandPoint, SessionCompleted, SessionConfirmed, SessionKnownCompleted
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.sequence import MAX_RANGES, SequenceSet
from amqproxy.broker.amqp010.completions import MANY_RANGES, Completions
from amqproxy.broker.amqp010.session_sender import SessionSender
from amqproxy.broker.connections.output import OutputBuffer


class Reported:
    """Completions, and what they report."""

    def __init__(self) -> None:
        self.completions = Completions()
        self.output = OutputBuffer(65_535, lambda: None)
        self.sender = SessionSender(1, self.output)

    def sent(self) -> list[Method]:
        reader = AssemblyReader()
        frames = FrameReader(frame_max=0).feed(self.output.take_bytes())
        return [made.method for made in map(reader.add, frames) if made is not None]

    def report(self) -> list[Method]:
        self.completions.report(self.sender)
        return self.sent()


def completed(*ranges: tuple[int, int], timely_reply: bool = False) -> SessionCompleted:
    return SessionCompleted(SequenceSet(ranges), timely_reply=timely_reply)


def test_what_is_complete_is_reported_once() -> None:
    made = Reported()
    made.completions.complete(0, 3)
    assert made.completions.is_new
    assert made.report() == [completed((0, 2))]
    assert made.report() == []
    made.completions.complete(4, 5)
    assert made.report() == [completed((0, 2), (4, 4))]
    made.completions.known([range(3)])
    made.completions.complete_again(1, 2)
    assert made.report() == [completed((1, 1), (4, 4))]


def test_a_sync_is_complete_with_the_last_before_it() -> None:
    made = Reported()
    for position in (0, 1, 2, 3):
        made.completions.begin(position)
    assert made.completions.sync(2)
    made.completions.complete(3, 4)
    made.completions.complete(1, 2)
    assert made.report() == [completed((1, 1), (3, 3))]
    assert made.completions.has_begun(2)
    made.completions.complete(0, 1)
    assert not made.completions.has_begun(2)
    assert made.report() == [completed((0, 3))]
    made.completions.begin(4)
    assert not made.completions.sync(4)


def test_many_that_have_begun_are_ended_at_once() -> None:
    made = Reported()
    for position in range(10):
        made.completions.begin(position)
    made.completions.complete(0, 2**40)
    assert not any(map(made.completions.has_begun, range(10)))


def test_a_transfer_is_accepted_once_it_is_complete() -> None:
    made = Reported()
    made.completions.accept(0)
    made.completions.accept(1)
    assert made.report() == []
    made.completions.complete(1, 2)
    accept = MessageAccept(SequenceSet([(1, 1)]))
    assert made.report() == [SessionCommandPoint(0, 0), accept, completed((1, 1))]
    made.completions.complete(0, 1)
    assert made.report() == [MessageAccept(SequenceSet([(0, 0)])), completed((0, 1))]


def test_parts_are_accepted_with_their_last_whatever_ranges_are_complete() -> None:
    made = Reported()
    for last in (1, 4, 7):
        made.completions.begin(last)
        made.completions.accept(last, CommandIds.of([range(last - 1, last)]))
    made.completions.accept(9)
    made.completions.complete(4, 5)
    assert made.report()[1:] == [MessageAccept(SequenceSet([(3, 4)])), completed((4, 4))]
    made.completions.complete(0, 2**40)
    assert made.report()[0] == MessageAccept(SequenceSet([(0, 1), (6, 7), (9, 9)]))
    made.completions.complete_again(0, 8)
    assert [type(each) for each in made.report()] == [SessionCompleted]


def test_what_the_client_has_completed_is_known() -> None:
    made = Reported()
    made.completions.to_be_known([range(1, 2), range(7, 10)])
    made.completions.to_be_known([range(2, 3)])
    assert made.report() == [SessionKnownCompleted(SequenceSet([(1, 2), (7, 9)]))]
    assert made.report() == []


def test_many_ranges_are_to_be_known_and_too_many_are_forgotten() -> None:
    made = Reported()
    for position in range(0, 2 * MANY_RANGES + 2, 2):
        made.completions.complete(position, position + 1)
    (report,) = made.report()
    assert isinstance(report, SessionCompleted)
    assert report.timely_reply
    for position in range(0, 2 * (MAX_RANGES + 5), 2):
        made.completions.complete(position, position + 1)
    made.completions.report_all(made.sender, confirmed=True, completed=True)
    confirmed, again = made.sent()
    assert isinstance(confirmed, SessionConfirmed)
    assert isinstance(again, SessionCompleted)
    assert confirmed.commands == again.commands
    assert again.commands is not None
    assert len(again.commands.ranges) == made.completions.ranges == MAX_RANGES
    assert again.commands.ranges[0] == (10, 10)


def test_of_many_ranges_only_what_is_new_is_reported() -> None:
    made = Reported()
    for position in range(0, 2 * MANY_RANGES + 2, 2):
        made.completions.complete(position, position + 1)
    made.report()
    far = 1_000_000
    made.completions.complete(far, far + 1)
    made.completions.complete(far + 2, far + 3)
    assert made.report() == [completed((far, far), (far + 2, far + 2), timely_reply=True)]
    assert made.report() == []
    made.completions.report_afresh()
    (whole,) = made.report()
    assert isinstance(whole, SessionCompleted)
    assert whole.commands is not None
    assert len(whole.commands.ranges) == MANY_RANGES + 3
    made.completions.known([range(far)])
    made.completions.complete(far + 4, far + 5)
    assert made.report() == [completed((far, far), (far + 2, far + 2), (far + 4, far + 4))]


def test_what_is_new_is_never_more_than_fits() -> None:
    made = Reported()
    for _ in range(2):
        for position in range(0, 4 * MAX_RANGES, 2):
            made.completions.complete_again(position, position + 1)
        (report,) = made.report()
        assert isinstance(report, SessionCompleted)
        assert report.commands is not None
        assert len(report.commands.ranges) == MAX_RANGES


def test_ids_roll_over() -> None:
    made = Reported()
    made.completions.complete(2**32 - 1, 2**32 + 1)
    assert made.report() == [completed((id_of(2**32 - 1), 0))]


def test_very_many_syncs_are_complete_at_once() -> None:
    made, most = Reported(), 20_000  # looking for the first of those that are left must not go over those before it
    made.completions.begin(0)
    for position in range(1, most):
        made.completions.begin(position)
        assert made.completions.sync(position)
    made.completions.complete(0, 1)
    assert made.report() == [completed((0, most - 1))]
    assert not made.completions.has_begun(most - 1)
    made.completions.begin(most)
    assert not made.completions.sync(most)
