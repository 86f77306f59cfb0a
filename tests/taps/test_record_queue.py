"""Records that wait to be read."""

from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.record_queue import RecordQueue


def test_records_may_be_looked_at_while_they_wait() -> None:
    queue = RecordQueue(2, 100, Metrics(), lambda: None, keeps_newest=True)
    records = [MessageRecord(ts_ns=n, stream=1, connection="a:1-b:2", type="publish", outcome="sent") for n in range(3)]
    for each in records:
        assert queue.has_room(10)
        queue.add(each, 10)
    assert queue.waiting_records() == records[1:]
    assert queue.waiting_records() == list(queue.take_records()) == records[1:]
    assert queue.waiting_records() == []
    assert queue.take_dropped() == 1


def test_it_is_half_full_by_records_or_by_bytes() -> None:
    record = MessageRecord(ts_ns=1, stream=1, connection="a:1-b:2", type="publish", outcome="sent")
    for cost, count in ((1, 5), (50, 1)):
        queue = RecordQueue(10, 100, Metrics(), lambda: None)
        for _ in range(count):
            assert not queue.is_half_full
            assert queue.has_room(cost)
            queue.add(record, cost)
        assert queue.is_half_full
        queue.take_records()
        assert not queue.is_half_full


def test_one_that_counts_for_several() -> None:
    queue = RecordQueue[str](10, 1000, Metrics(), lambda: None, keeps_newest=True)
    for name in ("a", "b"):
        assert queue.has_room(1, 6)
        queue.add(name, 1, 6)
    assert queue.is_half_full
    assert queue.has_room(1, 1)  # the oldest goes for it, with all that it counts for
    assert queue.take_dropped() == 6
    queue.add("c", 1)
    assert list(queue.take_records()) == ["b", "c"]
    full = RecordQueue[str](10, 10, Metrics(), lambda: None)
    assert not full.has_room(11, 6)
    assert full.take_dropped() == 6
