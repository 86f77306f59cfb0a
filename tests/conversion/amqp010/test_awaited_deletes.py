"""Deletes of queues by AMQP 0-10, and the completions that limits see as their answers."""

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.commands import QueueDeclare, QueueDelete
from amqproxy.amqp010.controls import SessionCompleted, SessionFlush
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp091.methods import QueueDeleteOk
from amqproxy.conversion.amqp010.awaited_deletes import MAX_AWAITED, AwaitedDeletes, delete_answer


def completed(*ranges: tuple[int, int]) -> SessionCompleted:
    return SessionCompleted(commands=SequenceSet(ranges))


def test_deletes_are_completed_in_order() -> None:
    awaited = AwaitedDeletes()
    assert not awaited
    awaited.note(QueueDeclare(queue="q"), 0)
    for position in (1, 3, 5):
        awaited.note(QueueDelete(queue="q"), position)
    assert awaited
    assert awaited.completed_by(SessionFlush()) == 0
    assert awaited.completed_by(completed((5, 5))) == 0, "those before it are not completed"
    assert awaited.completed_by(completed((0, 1))) == 1
    assert awaited.completed_by(completed((0, 3))) == 2
    assert not awaited


def test_later_completions_are_remembered_as_few_ranges() -> None:
    awaited = AwaitedDeletes()
    for position in range(0, 2 * MAX_AWAITED, 2):
        awaited.note(QueueDelete(queue="q"), position)
    for position in range(2, 2 * MAX_AWAITED, 2):
        assert awaited.completed_by(completed((position + 1, position + 1), (position, position))) == 0
        assert awaited.completed_by(completed((2, position + 1))) == 0
    assert awaited._completed.ranges == 1
    assert awaited.completed_by(completed((9, 3))) == 0, "not a range"
    assert awaited.completed_by(completed((0, 0))) == MAX_AWAITED
    assert not awaited
    assert not awaited._completed


def test_a_completion_of_many_looks_at_no_delete_behind_the_first_open_one() -> None:
    class Counted:
        """Command ids, which are final where they are compiled."""

        def __init__(self) -> None:
            self._ids, self.asked = CommandIds(), 0

        def __contains__(self, position: int) -> bool:
            self.asked += 1
            return position in self._ids

        def __getattr__(self, name: str) -> object:
            return getattr(self._ids, name)

    awaited = AwaitedDeletes()
    awaited._completed = counted = Counted()
    for position in range(MAX_AWAITED):
        awaited.note(QueueDelete(queue="q"), position)
    assert awaited.completed_by(completed((1, MAX_AWAITED))) == 0
    assert counted.asked == 1


def test_ids_roll_over() -> None:
    awaited = AwaitedDeletes()
    awaited.note(QueueDelete(queue="q"), 1 << 32)
    assert awaited.completed_by(completed((0, 0))) == 1


def test_a_session_that_ends_completes_nothing() -> None:
    awaited = AwaitedDeletes()
    awaited.note(QueueDelete(queue="q"), 0)
    awaited.clear()
    assert awaited.completed_by(completed((0, 0))) == 0


def test_they_are_bounded() -> None:
    awaited = AwaitedDeletes()
    for position in range(MAX_AWAITED + 1):
        awaited.note(QueueDelete(queue="q"), position)
    assert awaited.completed_by(completed((0, MAX_AWAITED))) == MAX_AWAITED


def test_the_answer_is_that_of_0_9_1() -> None:
    answer = delete_answer(7)
    assert (answer.channel, answer.method) == (7, QueueDeleteOk())
