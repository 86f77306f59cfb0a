"""What is accepted in transactions."""

from amqproxy.taps.trace.amqp010.open_transfers import TransferRun
from amqproxy.taps.trace.amqp010.transactions import MAX_TRANSACTIONS, Accepted, SessionTransactions
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.events import DeliveriesSettled, Settlement


def accepted(position: int) -> Accepted:
    event = DeliveriesSettled(ts_ns=0, channel=1, outcome=Settlement.ACKED, spans=())
    return Accepted(event, [TransferRun(position, position, position, 0)])


def test_what_was_accepted_ends_with_its_own_transaction() -> None:
    budget = Budget(10)
    transactions = SessionTransactions(budget)
    transactions.add(accepted(1))
    transactions.commit(5)
    transactions.add(accepted(2))
    assert budget.left == 8
    assert transactions.ended(5) == [accepted(1)]
    assert transactions.roll_back(6) == [accepted(2)]
    assert transactions.ended(6) == []
    assert budget.left == 10


def test_what_has_not_ended_is_given_up() -> None:
    budget = Budget(10)
    transactions = SessionTransactions(budget)
    transactions.add(accepted(1))
    transactions.commit(5)
    transactions.add(accepted(2))
    assert transactions.give_up() == [accepted(1), accepted(2)]
    assert transactions.ended(5) == []
    assert transactions.clear() == []
    assert budget.left == 10


def test_too_many_ends_are_noticed() -> None:
    transactions = SessionTransactions(Budget(10))
    for position in range(MAX_TRANSACTIONS + 1):
        assert not transactions.are_too_many
        transactions.commit(position)
    assert transactions.are_too_many
