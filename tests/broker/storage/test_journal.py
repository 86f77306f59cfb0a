"""What the model wants remembered, gathered into batches."""

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from amqproxy.broker.events import EventDispatcher
from amqproxy.broker.message import Message
from amqproxy.broker.storage.batch import (
    MAX_MESSAGE_LOGS,
    MAX_POSITION,
    POSITION_BITS,
    ClearedRange,
    DurabilityTicket,
    JournalBatch,
    LogOwner,
    LogState,
    RecoveredLog,
)
from amqproxy.broker.storage.definition_records import DurableQueue, key
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.message_log import EMBEDDED, ENTRY_COST, MessageLog
from amqproxy.broker.work import WorkQueue

HERE = LogOwner("queue", "/", "q")
THERE = LogOwner("queue", "/", "other")
LONG = bytes(EMBEDDED + 1)


def message(body: bytes = b"body") -> Message:
    return Message("x", "k", b"header", body)


def started(*owners: LogOwner) -> tuple[Journal, list[MessageLog]]:
    """A journal whose message logs are on the disk already."""
    journal = Journal()
    message_logs = [journal.message_log(owner) for owner in owners]
    journal.committed(journal.take_batch())
    return journal, message_logs


def ids(batch: JournalBatch) -> list[int]:
    return [row.id & MAX_POSITION for row in batch.rows]


def settled(batch: JournalBatch) -> list[int]:
    return [id_ & MAX_POSITION for id_ in batch.settled]


# --- messages


def test_a_message_is_in_one_batch() -> None:
    journal, [message_log] = started(HERE)
    message_log.enqueued(1, message(), 5.0)
    batch = journal.take_batch()
    assert [(row.size, row.expires_at, row.shared, row.message.body) for row in batch.rows] == [(4, 5.0, None, b"body")]
    assert ids(batch) == [1]
    assert batch.message_logs == [LogState(message_log.number, 1, 4, 1, 0)]
    assert journal.take_batch().is_empty


def test_times_are_the_walls() -> None:
    journal = Journal(epoch=1_000_000.0)
    journal.message_log(HERE).enqueued(1, message(), 5.0)
    assert journal.take_batch().rows[0].expires_at == 1_000_005.0


def test_what_comes_and_goes_between_two_batches_is_in_neither() -> None:
    journal, [message_log] = started(HERE)
    for position in (1, 2, 3):
        message_log.enqueued(position, message())
    message_log.returned(2, 1)
    message_log.settled(2, 4)
    batch = journal.take_batch()
    assert ids(batch) == [1, 3]
    assert (batch.settled, batch.delivery_counts) == ([], {})
    message_log.settled(1, 4)
    assert settled(journal.take_batch()) == [1]


def test_a_message_log_knows_how_it_stands() -> None:
    journal, [message_log] = started(HERE)
    for position in (1, 2, 5):
        message_log.enqueued(position, message())
    message_log.delivered(2)
    message_log.delivered(1)
    message_log.settled(1, 4)
    assert journal.take_batch().message_logs == [LogState(message_log.number, 2, 8, 5, 2)]


def test_only_the_last_delivery_count_is_reported() -> None:
    journal, [message_log] = started(HERE)
    message_log.enqueued(1, message())
    message_log.returned(1, 1)
    message_log.returned(1, 2)
    assert list(journal.take_batch().delivery_counts.values()) == [(2, 0)]


def test_a_purge_keeps_what_is_held() -> None:
    journal, [message_log] = started(HERE)
    for position in range(1, 5):
        message_log.enqueued(position, message())
    journal.take_batch()
    for position in range(5, 8):
        message_log.enqueued(position, message())
    message_log.purged({2: 4, 6: 4})
    message_log.enqueued(8, message())
    batch = journal.take_batch()
    first = message_log.number << POSITION_BITS
    assert batch.cleared == [ClearedRange(first, first + 7, (2, 6))]
    assert ids(batch) == [6, 8]
    assert batch.message_logs == [LogState(message_log.number, 3, 12, 8, 0)]


def test_a_log_loses_its_tail() -> None:
    journal, [message_log] = started(HERE)
    for position in range(1, 5):
        message_log.enqueued(position, message())
    message_log.trimmed(3, 1, 4)
    batch = journal.take_batch()
    assert ids(batch) == [4]
    assert [each.last & MAX_POSITION for each in batch.cleared] == [3]
    assert batch.message_logs == [LogState(message_log.number, 1, 4, 4, 0)]


# --- long bodies


def test_a_long_body_of_two_queues_is_there_once() -> None:
    journal, [here, there] = started(HERE, THERE)
    long = message(LONG)
    here.enqueued(1, long)
    there.enqueued(7, long)
    batch = journal.take_batch()
    assert [row.shared for row in batch.rows] == [1, 1]
    assert batch.bodies == {1: long}
    here.settled(1, len(LONG))
    assert journal.take_batch().bodies_dropped == []
    there.settled(7, len(LONG))
    assert journal.take_batch().bodies_dropped == [1]
    assert [message_log.shared for message_log in journal.message_logs.values()] == [{}, {}]


@pytest.mark.parametrize(
    ("bodies", "shared"),
    [
        ((LONG,), [None]),
        ((LONG, LONG), [None, None]),  # equal, but not the same message
        ((LONG[:EMBEDDED],), [None]),
    ],
)
def test_bodies_that_are_not_shared(bodies: tuple[bytes, ...], shared: list[int | None]) -> None:
    journal, [message_log] = started(HERE)
    for position, body in enumerate(bodies, 1):
        message_log.enqueued(position, message(body))
    assert [row.shared for row in journal.take_batch().rows] == shared


def test_a_short_body_is_never_shared() -> None:
    journal, [here, there] = started(HERE, THERE)
    short = message()
    here.enqueued(1, short)
    there.enqueued(1, short)
    assert [row.shared for row in journal.take_batch().rows] == [None, None]


def test_a_shared_body_that_goes_before_it_was_written() -> None:
    journal, [here, there] = started(HERE, THERE)
    long = message(LONG)
    here.enqueued(1, long)
    there.enqueued(1, long)
    here.settled(1, len(LONG))
    there.settled(1, len(LONG))
    here.enqueued(2, long)
    batch = journal.take_batch()
    assert (batch.bodies_dropped, journal.waiting_bytes) == ([], 0)
    assert len(batch.rows) == 1
    # Its body is with it, one way or the other.
    (row,) = batch.rows
    assert row.shared is None or batch.bodies == {row.shared: long}


def test_the_first_row_goes_before_the_second_comes() -> None:
    journal, [here, there] = started(HERE, THERE)
    long = message(LONG)
    here.enqueued(1, long)
    here.settled(1, len(LONG))
    there.enqueued(1, long)
    batch = journal.take_batch()
    assert ([row.shared for row in batch.rows], batch.bodies) == ([None], {})


@pytest.mark.parametrize(
    "go",
    [lambda journal, message_log: message_log.purged(), lambda journal, message_log: journal.delete_log(message_log)],
)
def test_shared_bodies_go_with_their_message_log(go: Callable[[Journal, MessageLog], None]) -> None:
    journal, [here, there] = started(HERE, THERE)
    long = message(LONG)
    here.enqueued(1, long)
    there.enqueued(1, long)
    journal.take_batch()
    go(journal, here)
    assert journal.take_batch().bodies_dropped == []
    go(journal, there)
    assert journal.take_batch().bodies_dropped == [1]


def test_shared_bodies_that_were_found_again_go_with_their_message_logs() -> None:
    journal = Journal()
    kept = [RecoveredLog(owner, LogState(number, 1, len(LONG), 1, 0)) for number, owner in enumerate((HERE, THERE), 1)]
    journal.recover(kept, {(number << POSITION_BITS) + 1: 7 for number in (1, 2)})
    assert [len(message_log.shared) for message_log in journal.message_logs.values()] == [1, 1]
    journal.delete_log(journal.message_log(HERE))
    assert journal.take_batch().bodies_dropped == []
    journal.message_log(THERE).settled(1, len(LONG))
    assert journal.take_batch().bodies_dropped == [7]
    assert [len(message_log.shared) for message_log in journal.message_logs.values()] == [0]


# --- message logs and definitions


def test_a_message_log_that_comes_and_goes_is_in_no_batch() -> None:
    journal = Journal()
    message_log = journal.message_log(HERE)
    assert journal.message_log(HERE) is message_log
    message_log.enqueued(1, message())
    journal.delete_log(message_log)
    assert journal.take_batch().is_empty
    assert journal.waiting_bytes == 0


def test_a_message_logs_number_is_given_again_but_not_in_the_same_batch() -> None:
    journal, [message_log] = started(HERE)
    message_log.enqueued(1, message())
    message_log.settled(1, 4)
    journal.delete_log(message_log)
    again = journal.message_log(HERE)
    assert (message_log.number, again.number) == (1, 2)
    batch = journal.take_batch()
    assert (batch.logs_deleted, batch.logs_created, batch.message_logs) == ([1], {2: HERE}, [])
    assert journal.message_log(THERE).number == 1


def test_there_are_only_so_many_message_logs() -> None:
    journal = Journal()
    journal.recover([RecoveredLog(HERE, LogState(MAX_MESSAGE_LOGS, 0, 0, 0, 0))], {})
    assert journal.message_log(THERE).number == 1
    journal._free = []
    with pytest.raises(OverflowError):
        journal.message_log(LogOwner("queue", "/", "third"))


def test_ids_fit_sqlite() -> None:
    assert (MAX_MESSAGE_LOGS << POSITION_BITS) + MAX_POSITION < 1 << 63


def test_the_last_word_on_a_definition_counts() -> None:
    journal = Journal()
    journal.remember(DurableQueue(vhost="/", name="a"))
    journal.remember(DurableQueue(vhost="/", name="b"))
    journal.remember(DurableQueue(vhost="/", name="a", auto_delete=True))
    journal.forget(key(DurableQueue, "/", "b"))
    durables = journal.take_batch().durables
    assert durables == {
        key(DurableQueue, "/", "a"): DurableQueue(vhost="/", name="a", auto_delete=True),
        key(DurableQueue, "/", "b"): None,
    }


# --- batches


def test_each_batch_wakes_once() -> None:
    woken: list[int] = []
    journal = Journal(wake=lambda: woken.append(journal.number))
    message_log = journal.message_log(HERE)
    message_log.enqueued(1, message())
    assert woken == [1]
    journal.take_batch()
    assert not journal.is_dirty
    message_log.delivered(1)
    message_log.settled(1, 4)
    assert woken == [1, 2]


def test_what_waits_for_the_disk_is_called_when_it_is_there() -> None:
    journal, [message_log] = started(HERE)
    called: list[str] = []
    journal.when_committed(lambda: called.append("nothing to wait for"))
    message_log.enqueued(1, message())
    journal.when_committed(lambda: called.append("first"))
    first = journal.take_batch()
    journal.when_committed(lambda: called.append("first, on its way"))
    message_log.enqueued(2, message())
    journal.when_committed(lambda: called.append("second"))
    second = journal.take_batch()
    assert called == ["nothing to wait for"]
    journal.committed(first)
    assert called[1:] == ["first", "first, on its way"]
    journal.committed(second)
    assert called[3:] == ["second"]
    assert journal.last_committed == second.number


def test_what_waits_is_bounded() -> None:
    journal = Journal(max_pending=1000)
    message_log = journal.message_log(HERE)
    message_log.enqueued(1, message(bytes(900)))
    assert journal.is_full
    batch = journal.take_batch()
    assert journal.waiting_bytes == 0
    assert journal.is_full  # it is on its way, and not there
    journal.committed(batch)
    assert not journal.is_full


# --- who waits for messages to be safe


def take_ticket(message_log: MessageLog, positions: Iterable[int], content: Message | None = None) -> DurabilityTicket:
    """Messages that belong together."""
    ticket = DurabilityTicket()
    for position in positions:
        message_log.enqueued(position, content or message(), ticket=ticket)
    return ticket


def when_safe(journal: Journal, ticket: DurabilityTicket) -> list[str]:
    """What was called so far."""
    called: list[str] = []
    journal.when_safe(ticket, partial(called.append, "safe"))
    return called


def test_messages_are_safe_on_the_disk() -> None:
    journal, [message_log] = started(HERE)
    called = when_safe(journal, take_ticket(message_log, [1, 2]))
    batch = journal.take_batch()
    assert called == []
    journal.committed(batch)
    assert called == ["safe"]


def test_messages_are_safe_when_they_have_been_used_before_the_disk_had_them() -> None:
    journal, [message_log] = started(HERE)
    called = when_safe(journal, take_ticket(message_log, [1, 2]))
    message_log.settled(1, 4)
    assert called == []
    message_log.settled(2, 4)
    assert called == ["safe"]
    journal.committed(journal.take_batch())
    assert called == ["safe"]
    assert (journal.rows, journal.spared) == (2, 2)


def test_what_has_been_used_already_is_safe_at_once() -> None:
    journal, [message_log] = started(HERE)
    ticket = take_ticket(message_log, [1])
    message_log.settled(1, 4)
    assert when_safe(journal, ticket) == ["safe"]


def test_some_may_be_used_and_the_others_on_the_disk() -> None:
    journal, [message_log] = started(HERE)
    called = when_safe(journal, take_ticket(message_log, [1, 2]))
    message_log.settled(1, 4)
    batch = journal.take_batch()
    message_log.settled(2, 4)  # too late to spare the disk anything
    assert called == []
    journal.committed(batch)
    assert called == ["safe"]


def test_what_becomes_of_a_message_that_was_not_used_is_to_be_on_the_disk_first() -> None:
    journal, [message_log, other] = started(HERE, THERE)
    called = when_safe(journal, take_ticket(message_log, [1]))
    message_log.settled(1, 4, is_used=False)
    other.enqueued(1, message())
    assert called == []
    journal.committed(journal.take_batch())
    assert called == ["safe"]


def test_messages_without_a_ticket_are_no_part_of_one() -> None:
    journal, [message_log] = started(HERE)
    ticket = take_ticket(message_log, [1])
    message_log.enqueued(2, message())
    message_log.settled(1, 4)
    assert when_safe(journal, ticket) == ["safe"]


def test_a_long_body_in_two_message_logs_is_safe_when_both_have_used_it() -> None:
    journal, [message_log, other] = started(HERE, THERE)
    long = message(LONG)
    ticket = DurabilityTicket()
    message_log.enqueued(1, long, ticket=ticket)
    other.enqueued(1, long, ticket=ticket)
    called = when_safe(journal, ticket)
    message_log.settled(1, len(LONG))
    other.settled(1, len(LONG))
    assert called == ["safe"]
    assert not journal.take_batch().bodies


def test_waiting_for_the_disk_alone_is_urgent_and_waiting_for_safety_is_not() -> None:
    woken: list[str] = []
    journal = Journal(wake=partial(woken.append, "woken"))
    message_log = journal.message_log(HERE)
    when_safe(journal, take_ticket(message_log, [1]))
    assert not journal.is_urgent
    journal.when_committed(partial(woken.append, "committed"))
    assert journal.is_urgent
    assert woken == ["woken", "woken"]
    journal.committed(journal.take_batch())
    assert not journal.is_urgent
    assert woken == ["woken", "woken", "committed"]


def test_a_callback_that_fails_keeps_no_other_from_being_called() -> None:
    events = EventDispatcher()
    journal = Journal(events=events)
    message_log = journal.message_log(HERE)
    message_log.enqueued(1, message())
    calls: list[int] = []

    def fails() -> None:
        raise RuntimeError("on purpose")

    for call in (lambda: calls.append(1), fails, lambda: calls.append(2)):
        journal.when_committed(call, lambda: calls.append(3))
    journal.when_committed(fails, fails)
    journal.when_committed(lambda: calls.append(4))
    journal.committed(journal.take_batch())
    assert (calls, events.failures) == ([1, 3, 2, 4], 3)


# --- very many at once


@pytest.mark.parametrize(
    "go",
    [lambda journal, message_log: message_log.purged(), lambda journal, message_log: journal.delete_log(message_log)],
)
def test_very_many_are_let_go_of_in_later_turns(go: Callable[[Journal, MessageLog], None]) -> None:
    work = WorkQueue()
    work.quantum.limit(10)
    journal = Journal(work=work)
    here, there = journal.message_log(HERE), journal.message_log(THERE)
    for position in range(1, 301):
        long = message(b"%d" % position + LONG)
        here.enqueued(position, long)
        there.enqueued(position, long)
    journal.take_batch()
    go(journal, there)
    assert journal.take_batch().bodies_dropped == []
    for position in range(301, 601):
        here.enqueued(position, message())
    go(journal, here)
    assert (journal.waiting_bytes, len(here.shared)) == (0, 0)
    dropped = turns = 0
    while work:
        work.go_on(0.0)
        batch = journal.take_batch()
        assert len(batch.bodies_dropped) <= 10
        assert batch.rows == []
        dropped += len(batch.bodies_dropped)
        turns += 1
    dropped += len(journal.take_batch().bodies_dropped)
    assert (dropped, turns) == (300, 89)


def test_what_is_kept_of_a_purge_counts_on() -> None:
    journal, [message_log] = started(HERE)
    for position in range(1, 5):
        message_log.enqueued(position, message())
    message_log.purged({2: 4})
    assert journal.waiting_bytes == ENTRY_COST + 4
    message_log.settled(2, 4)
    assert journal.waiting_bytes == 0
    message_log.enqueued(5, message())
    journal.take_batch()
    message_log.purged()
    assert journal.waiting_bytes == 0


def test_what_need_not_wait_is_notified_when_the_disk_takes_nothing() -> None:
    journal = Journal()
    journal.defined()
    called: list[str] = []
    journal.when_committed(partial(called.append, "patient"))
    journal.when_committed(partial(called.append, "impatient"), given_up=called.append)
    batch = journal.take_batch()
    for _ in range(2):
        journal.cannot_write("full")
    assert called == ["full"]
    journal.committed(batch)
    assert called == ["full", "patient"]
    journal.when_committed(partial(called.append, "at once"), given_up=called.append)
    assert called[2:] == ["at once"]
