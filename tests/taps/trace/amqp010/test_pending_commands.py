"""Commands that await their answers."""

from amqproxy.amqp010.commands import ExecutionSync, QueuePurge
from amqproxy.taps.trace.amqp010.pending_commands import MAX_PENDING, MAX_RECENT, PendingCommands
from amqproxy.taps.trace.budget import Budget


def test_those_of_a_range_are_taken_in_their_order() -> None:
    budget = Budget(1_000_000)
    pending = PendingCommands(budget)
    for position in (5, 7, 9):
        assert pending.add(position, position, ExecutionSync(), 10)
    assert [position for position, _ in pending.take_all(range(6, 1000))] == [7, 9]
    assert [position for position, _ in pending.take_all(range(5, 6))] == [5]
    assert budget.left == budget.most


def test_it_is_bounded_by_number_and_by_memory() -> None:
    pending = PendingCommands(Budget(1 << 30))
    assert all(pending.add(position, 0, ExecutionSync(), 0) for position in range(MAX_PENDING))
    assert not pending.add(MAX_PENDING, 0, ExecutionSync(), 0)
    assert not PendingCommands(Budget(100)).add(0, 0, ExecutionSync(), 0)


def test_the_last_commands_are_remembered_for_exceptions() -> None:
    budget = Budget(1_000_000)
    pending = PendingCommands(budget)
    for position in range(MAX_RECENT + 1):
        pending.note(position, QueuePurge(queue=str(position)), 10)
    assert pending.find(0) is None
    assert pending.find(MAX_RECENT) == QueuePurge(queue=str(MAX_RECENT))
    assert pending.clear() == []
    assert budget.left == budget.most


def test_without_memory_nothing_is_remembered() -> None:
    pending = PendingCommands(Budget(100))
    pending.note(0, ExecutionSync(), 10)
    assert pending.find(0) is None
