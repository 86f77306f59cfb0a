"""A log that is read from any place, and forgets its oldest segments."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.errors import NotImplementedByServer, PreconditionFailed
from amqproxy.amqp091.wire import Item
from amqproxy.broker.message import Message
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.queues.stream import StreamQueue
from amqproxy.broker.storage.packing import DAMAGED, PackedMessage
from tests.broker.disk import Disk, Memory
from tests.broker.yard import Taker, Yard


@pytest.fixture
def yard() -> Yard:
    return Yard()


def stream(yard: Yard, count: int = 0, **arguments: Any) -> StreamQueue:
    queue = yard.queue("stream", **arguments)
    assert isinstance(queue, StreamQueue)
    one_by_one(yard, queue, *map(str, range(count)))
    return queue


def one_by_one(yard: Yard, queue: StreamQueue, *bodies: str) -> None:
    """Publish messages that do not come together, and so are no chunk."""
    for body in bodies:
        yard.publish(queue, body)
        yard.now += 0.001


def reader(yard: Yard, queue: StreamQueue, offset: Any = None, prefetch: int = 100, **options: Any) -> Taker:
    arguments = {} if offset is None else {"x-stream-offset": offset}
    return yard.consumer(queue, prefetch=prefetch, arguments=arguments, **options)


def offsets(queue: StreamQueue) -> tuple[int, int]:
    """The first offset that is there, and the next one."""
    return queue._log.first, queue._log.next


def test_reading_takes_nothing(yard: Yard) -> None:
    queue = stream(yard, 3)
    for _ in range(2):
        assert reader(yard, queue, "first").bodies == ["0", "1", "2"]
    assert (queue.message_count, queue.body_bytes, queue.consumer_count) == (3, 3, 0)


def test_offsets_are_in_the_headers(yard: Yard) -> None:
    queue = stream(yard)
    yard.publish(queue, "a", headers={"mine": 1}, delivery_mode=1, expiration="1")
    (entry,) = reader(yard, queue, "first").entries
    sent = Message("", "", entry.header, entry.message.body)
    assert [(each.name, each.type, each.value) for each in sent.properties.headers.fields] == [  # type: ignore[union-attr]
        ("mine", "I", 1),
        ("x-stream-offset", "l", 0),
    ]
    assert (sent.properties.expiration, sent.properties.delivery_mode) == ("1", 1)
    assert not entry.is_redelivered


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (None, ""),
        ("next", ""),
        ("first", "a b c d e"),
        ("last", "d e"),
        (0, "a b c d e"),
        (3, "d e"),
        (99, ""),
        (Item("b", -5), "a b c d e"),
        (Item("T", 0), "a b c d e"),
        (Item("T", 1000), "a b c d e"),
        (Item("T", 1001), "b c d e"),
        (Item("T", 1020), "d e"),
        (Item("T", 1021), ""),
        ("1h", "a b c d e"),
        ("15s", "d e"),
        ("5s", ""),
    ],
)
def test_where_to_begin(yard: Yard, offset: Any, expected: str) -> None:
    """Messages of one time are one chunk, which is what `last` and times point at. The time is 1030."""
    queue = stream(yard)
    yard.publish(queue, "a")
    yard.wait(10)
    yard.publish(queue, "b", "c")
    yard.wait(10)
    yard.publish(queue, "d", "e")
    yard.wait(10)
    assert reader(yard, queue, offset).bodies == expected.split()


def test_what_comes_later(yard: Yard) -> None:
    queue = stream(yard, 2)
    new, ahead = reader(yard, queue), reader(yard, queue, 3)
    yard.publish(queue, "2", "3", "4")
    assert (new.bodies, ahead.bodies) == (["2", "3", "4"], ["3", "4"])


def test_last_of_nothing(yard: Yard) -> None:
    queue = stream(yard)
    readers = [reader(yard, queue, offset) for offset in ("last", "first", Item("T", 0), 0)]
    yard.publish(queue, "0")
    assert [each.bodies for each in readers] == [["0"]] * 4


def test_acks_give_room(yard: Yard) -> None:
    queue = stream(yard, 5)
    taker = reader(yard, queue, "first", prefetch=2)
    assert taker.bodies == ["0", "1"]
    taker.ack(1)
    assert taker.bodies == ["0", "1", "2"]
    taker.ack(0, 2)
    assert (taker.bodies, queue.unacked, taker.held) == (["0", "1", "2", "3", "4"], 2, 2)
    taker.cancel()
    taker.ack(3)
    assert (len(taker.bodies), queue.unacked) == (5, 1)


def test_what_came_together_is_sent_together(yard: Yard) -> None:
    """As RabbitMQ sends its chunks: the prefetch decides when the next one may begin."""
    queue = stream(yard, 1)
    yard.publish(queue, *"abc")
    yard.now += 1
    yard.publish(queue, *"de")
    taker = reader(yard, queue, "first", prefetch=2)
    assert "".join(taker.bodies) == "0abc"
    taker.ack(0, 1)
    assert "".join(taker.bodies) == "0abc"
    taker.ack(2)
    assert "".join(taker.bodies) == "0abcde"


def test_a_chunk_that_is_still_coming(yard: Yard) -> None:
    queue = stream(yard)
    taker = reader(yard, queue, prefetch=2)
    yard.publish(queue, *"abc")
    assert "".join(taker.bodies) == "abc"
    yard.now += 1
    yard.publish(queue, *"de")
    assert "".join(taker.bodies) == "abc"
    taker.ack(0, 1)
    assert "".join(taker.bodies) == "abcde"


def test_a_chunk_for_which_there_is_no_room(yard: Yard) -> None:
    queue = stream(yard)
    yard.publish(queue, *"abc")
    taker = reader(yard, queue, "first", prefetch=1, room=2)
    assert "".join(taker.bodies) == "ab"
    taker.room = 3
    queue.pump(yard.now)
    assert "".join(taker.bodies) == "abc"


def test_no_room_on_the_way(yard: Yard) -> None:
    queue = stream(yard, 3)
    taker = reader(yard, queue, "first", room=1)
    assert taker.bodies == ["0"]
    assert taker.consumer.is_blocked
    taker.room = 3
    assert queue.rejoin(taker.consumer)
    queue.pump(yard.now)
    assert taker.bodies == ["0", "1", "2"]


def test_what_a_channel_leaves_is_just_left(yard: Yard) -> None:
    queue = stream(yard, 2)
    taker = reader(yard, queue, "first")
    queue.give_back(taker.entries, yard.now)
    assert (queue.unacked, taker.held, queue.message_count) == (0, 0, 2)


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(6, 4, "0 1 2 3 4 5"), (7, 4, "2 3 4 5 6"), (5, 0, "4"), (7, 100, "0 1 2 3 4 5 6")],
)
def test_too_much(yard: Yard, count: int, size: int, expected: str) -> None:
    """Segments of two go as a whole, when another begins."""
    queue = stream(yard, count, max_length_bytes=size, stream_max_segment_size_bytes=2)
    assert [each.body.decode() for each in queue] == expected.split()
    assert queue.body_bytes == queue.message_count == len(expected.split())
    assert offsets(queue) == (int(expected.split()[0]), count)
    assert reader(yard, queue, 0).bodies == expected.split()


def test_too_old(yard: Yard) -> None:
    queue = stream(yard, 3, max_age="10s", stream_max_segment_size_bytes=1)
    yard.wait(9)
    yard.publish(queue, "3")
    assert queue.message_count == 4
    yard.wait(1)
    yard.publish(queue, "4")
    assert [each.body for each in queue] == [b"3", b"4"]


def test_a_reader_that_is_left_behind_goes_on_at_the_oldest(yard: Yard) -> None:
    queue = stream(yard, 3, max_length_bytes=1, stream_max_segment_size_bytes=1)
    taker = reader(yard, queue, "first", prefetch=1)
    assert taker.bodies == ["1"]
    one_by_one(yard, queue, *"345")
    taker.ack(0)
    assert taker.bodies == ["1", "4"]


def refused(queue: StreamQueue, **changed: Any) -> str:
    options = {"exclusive": False, "no_ack": False, "prefetch": 1, "is_limited": False, **changed}
    with pytest.raises((NotImplementedByServer, PreconditionFailed)) as error:
        queue.check_consumer(**options)
    return f"{error.value.code} {error.value.text}"


def test_consumers_that_cannot_be(yard: Yard) -> None:
    queue, name = stream(yard), "queue 'q' in vhost 'v'"
    assert refused(queue, prefetch=0) == f"406 consumer prefetch count is not set for '{name}'"
    assert refused(queue, prefetch=0, is_limited=True) == f"406 consumer prefetch count is not set for '{name}'"
    assert refused(queue, no_ack=True) == f"540 automatic acknowledgement not supported by stream queues {name}"
    assert refused(queue, is_limited=True) == f"540 {name} does not support global qos"
    reader(yard, queue, exclusive=True)
    queue.check_consumer(exclusive=True, no_ack=False, prefetch=1, is_limited=False)


def test_what_cannot_be_asked(yard: Yard) -> None:
    queue = stream(yard, 1)
    entries = reader(yard, queue, "first").entries
    for text, asked in (
        ("basic.get not", lambda: queue.get(yard.now)),
        ("queue.purge not", queue.purge),
        ("basic.nack and basic.reject not", lambda: queue.reject(entries, yard.now)),
        ("basic.nack and basic.reject not", lambda: queue.requeue([], yard.now)),
    ):
        with pytest.raises(NotImplementedByServer, match=f"{text} supported by stream queues queue 'q' in vhost 'v'"):
            asked()
    assert queue.unacked == 0
    queue.check_delete(if_unused=True, if_empty=True)


# --- kept


def kept(disk: Disk, **arguments: Any) -> StreamQueue:
    """A stream whose message log is on a disk; what is there of it already is found again."""
    queue = Yard().queue("stream", storage=QueueStorage(disk.journal, disk.fetch), **arguments)
    assert isinstance(queue, StreamQueue)
    for each in sorted(disk.segments, key=lambda each: each.key):
        queue.recover(each)
    queue.recovered(1000.0)
    return queue


def test_a_restart_finds_messages_times_and_segments_again(yard: Yard) -> None:
    disk = Disk("v")
    options = {"max_age": "100s", "stream_max_segment_size_bytes": 2}
    queue = kept(disk, **options)
    for body in "abcdefg":
        yard.publish(queue, body)
        yard.wait(10)
    disk.again()
    queue = kept(disk, **options)
    assert (*offsets(queue), queue.body_bytes, queue.message_count) == (0, 7, 7, 7)
    assert reader(yard, queue, Item("T", 1030)).bodies == ["d", "e", "f", "g"]
    assert reader(yard, queue, "last").bodies == ["g"]
    assert reader(yard, queue, "45s").bodies == ["d", "e", "f", "g"]
    yard.wait(70)  # it is 1140, so what came up to 1040 is too old, but not the segment that it shares with 1050
    yard.publish(queue, "h")
    yard.publish(queue, "i")
    assert [each.body for each in queue] == [b"e", b"f", b"g", b"h", b"i"]
    disk.again()
    queue = kept(disk, **options)
    assert (*offsets(queue), queue.body_bytes) == (4, 9, 5)
    assert [each.first for each in disk.segments] == [4, 6]
    assert reader(yard, queue, 0).bodies == ["e", "f", "g", "h", "i"]


def test_too_much_goes_from_the_disk_too(yard: Yard) -> None:
    disk = Disk("v")
    queue = kept(disk, max_length_bytes=4, stream_max_segment_size_bytes=2)
    yard.publish(queue, *"abcdefgh")
    disk.commit()
    assert [row.message.body for row in disk.rows.values()] == [b"c", b"d", b"e", b"f", b"g", b"h"]
    assert len(disk.segments) == 2
    assert queue.durables() == disk.segments


def test_a_shorter_limit_holds_after_a_restart(yard: Yard) -> None:
    disk = Disk("v")
    yard.publish(kept(disk, stream_max_segment_size_bytes=2), *"abcdefgh")
    disk.again()
    queue = kept(disk, max_length_bytes=4, stream_max_segment_size_bytes=2)
    assert [each.body for each in queue] == [b"e", b"f", b"g", b"h"]


def test_what_memory_has_no_room_for(yard: Yard) -> None:
    queue, memory = stream(yard, 5000), Memory()
    before = queue.bytes_in_memory
    taker = reader(yard, queue, "first", prefetch=5000)
    taker.cancel()
    assert queue.page_out(memory, 1 << 30) > 0.7 * before
    assert queue.bytes_in_memory < 0.3 * before
    other = reader(yard, queue, "first", prefetch=5000)
    assert other.bodies == taker.bodies
    assert queue.bytes_in_memory > 0.7 * before
    other.cancel()
    assert queue.bytes_in_memory < 0.3 * before
    queue.discard()
    assert memory.rows == {}


@pytest.mark.parametrize("lost", [[0], [1, 2], [3], [0, 1, 2, 3]])
@pytest.mark.parametrize("is_missing", [True, False])
def test_what_the_disk_has_lost_costs_itself(yard: Yard, lost: list[int], is_missing: bool) -> None:
    """All else stays at its offset."""
    disk = Disk("v")
    yard.publish(kept(disk), *"abcd")
    disk.again()
    for place in lost:
        id_ = sorted(disk.rows)[place if not is_missing else place - lost.index(place)]
        if is_missing:
            del disk.rows[id_]
        else:
            disk.rows[id_] = disk.rows[id_]._replace(message=DAMAGED)
    queue = kept(disk)
    taker = reader(yard, queue, "first")
    yard.publish(queue, "e")
    expected = [(place, body) for place, body in enumerate("abcde") if place not in lost]
    assert [(entry.position, entry.message.body.decode()) for entry in taker.entries] == expected
    assert [each.body.decode() for each in queue] == [body for _, body in expected]


def test_a_disk_that_cannot_be_read_costs_no_publisher(yard: Yard) -> None:
    def fails(*_: int) -> list[PackedMessage]:
        raise OSError("Input/output error")

    disk = Disk("v")
    yard.publish(kept(disk), *"ab")
    disk.again()
    own = Yard()
    queue = own.queue("stream", storage=QueueStorage(disk.journal, disk.fetch))
    queue._log._fetch = fails  # type: ignore[attr-defined]
    queue._log._last_time = 1000.0  # type: ignore[attr-defined]
    taker = reader(own, queue, 0)
    assert own.publish(queue, "c") == [True]
    assert {event for event, _ in own.failures} == {"reading failed"}
    queue._log._fetch = disk.fetch  # type: ignore[attr-defined]
    own.publish(queue, "d")
    assert taker.bodies == ["a", "b", "c", "d"]


def test_a_page_file_that_cannot_be_read_costs_what_is_in_it(yard: Yard) -> None:
    queue, memory = stream(yard, 5000), Memory()
    queue.page_out(memory, 1 << 30)
    memory.unreadable = {next(iter(memory.rows)).first}
    last = next(iter(memory.rows)).last
    assert reader(yard, queue, "first", prefetch=5000).entries[0].position == last + 1
