"""How long a batch is waited for."""

from amqproxy.broker.storage.group_commit import FEW, PATIENCE, PROBE, SMALL, GroupCommit


def test_few_messages_are_written_at_once() -> None:
    assert GroupCommit().patience(FEW - 1, 0) == 0


def test_many_are_waited_for_and_a_few_that_are_large() -> None:
    assert GroupCommit().patience(FEW, 0) == PATIENCE
    assert GroupCommit().patience(2, SMALL) == PATIENCE


def test_what_is_counted_is_what_came_since_the_last_batch() -> None:
    gathering = GroupCommit()
    gathering.taken(1000, 1000)
    assert gathering.patience(1000 + FEW - 1, 0) == 0
    assert gathering.patience(1000 + FEW, 0) == PATIENCE


def test_it_is_not_waited_where_most_go_to_the_disk_all_the_same_but_now_and_then() -> None:
    gathering = GroupCommit()
    rows = 0
    waits = []
    for _ in range(2 * PROBE):
        rows += FEW
        waits.append(gathering.patience(rows, 0) > 0)
        gathering.taken(rows, 0)
    assert waits == [True, *[False] * (PROBE - 1)] * 2


def test_it_is_waited_again_once_it_has_paid() -> None:
    gathering = GroupCommit()
    gathering.taken(FEW, 0)
    assert gathering.patience(2 * FEW, 0) == 0
    gathering.taken(2 * FEW, FEW // 2)
    assert gathering.patience(3 * FEW, 0) == PATIENCE


def test_one_message_teaches_nothing() -> None:
    gathering = GroupCommit()
    gathering.taken(1, 0)
    assert gathering.patience(1 + FEW, 0) == PATIENCE
