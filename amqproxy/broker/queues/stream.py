"""Streams: a log that messages are appended to, and that any number of consumers read from any offset."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from amqproxy.amqp091.errors import NotImplementedByServer, PreconditionFailed
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.arguments import field
from amqproxy.broker.message import Message, header_with
from amqproxy.broker.queues.backlog import NEVER
from amqproxy.broker.queues.consumer import ACK, GIVE_BACK, QueueEntry
from amqproxy.broker.queues.paged_messages import PageStore
from amqproxy.broker.queues.queue import LockedEntries, Queue, QueueObserver
from amqproxy.broker.queues.queue_arguments import QueueSettings, interval
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.queues.stream_log import MessageRun, StreamLog
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.storage.definition_records import DurableSegment
from amqproxy.broker.storage.packing import DAMAGED

if TYPE_CHECKING:
    from amqproxy.broker.queues.consumer import Consumer

LEAST_READ = 32
"""Number of messages that are worth one read of the disk, even for a consumer that takes fewer at a time."""


class StreamSegment:
    """A part of the log that is dropped as a whole: its first offset, and the bytes of its bodies."""

    __slots__ = ("body_bytes", "first", "last_time")

    def __init__(self, first: int, body_bytes: int = 0) -> None:
        self.first = first
        self.body_bytes = body_bytes
        self.last_time = 0.0
        """Arrival time of its last message; known once there is another segment."""


class StreamQueue(Queue):
    """A stream, which is read without taking messages out.

    Whole segments are dropped, from the oldest, when a new one begins and a limit is exceeded. As in RabbitMQ, messages
    that arrived together are a chunk, and a consumer that may be sent any of it is sent all of it: so it can hold more
    than its prefetch.
    """

    type: ClassVar[str] = "stream"
    takes_back: ClassVar[bool] = False
    __slots__ = ("_chunks", "_log", "_places", "_segments", "_writer")

    def __init__(self, name: str, owner: QueueObserver, *, storage: QueueStorage | None = None, **options: Any) -> None:
        self._writer = storage.journal if storage is not None else None
        message_log = storage.message_log(owner.name, name, 0) if storage is not None else None
        self._log = StreamLog(message_log, storage.fetch if storage is not None else None)
        self._segments = [StreamSegment(self._log.first, message_log.body_bytes if message_log is not None else 0)]
        self._places: dict[Consumer, int] = {}
        self._chunks: dict[Consumer, float] = {}
        super().__init__(name, owner, storage=None, **options)
        self.body_bytes = self._segments[0].body_bytes

    @property
    def message_count(self) -> int:
        return self._log.next - self._log.first

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def consumer_count(self) -> int:
        """Always 0, as RabbitMQ reports no consumers of a stream."""
        return 0

    @property
    def entered(self) -> int:
        return self._log.next

    @property
    def left(self) -> int:
        """Number of messages dropped because of their age or number; none is ever taken out."""
        return self._log.first

    def __iter__(self) -> Iterator[Message]:
        return iter(self._log)

    def apply(self, settings: QueueSettings, now: float) -> None:
        super().apply(settings, now)
        self._retain(now)

    def publish(self, message: Message, now: float, ticket: DurabilityTicket | None = None) -> bool:
        segment = self._segments[-1]
        if segment.body_bytes >= self.settings.segment_size:
            segment = self._new_segment()
            self._retain(now)
        segment.body_bytes += len(message.body)
        self.body_bytes += len(message.body)
        self._log.append(message, now, ticket)
        for consumer in [each for each in self._places if not each.is_blocked]:
            self._feed(consumer, now)
        return True

    def _new_segment(self) -> StreamSegment:
        ended = self._segments[-1]
        ended.last_time = self._log.last_time
        new = StreamSegment(self._log.next)
        self._segments.append(new)
        if self._writer is not None:
            self._writer.remember(self._durable(ended, new.first))
        return new

    def _retain(self, now: float) -> None:
        """Drop the oldest segments that are over a limit, or too old. The one that is written stays."""
        limit, age = self.settings.max_bytes, self.settings.max_age
        dropped = 0
        while dropped < len(self._segments) - 1:
            oldest = self._segments[dropped]
            is_surplus = limit is not None and self.body_bytes > limit
            if not is_surplus and (age is None or oldest.last_time > now - age):
                break
            self.body_bytes -= oldest.body_bytes
            dropped += 1
            if self._writer is not None:
                self._writer.forget(self._durable(oldest, self._segments[dropped].first).key)
        if dropped:
            del self._segments[:dropped]
            self._log.trim(self._segments[0].first, self.body_bytes)

    def get(self, now: float) -> QueueEntry | None:
        raise NotImplementedByServer(f"basic.get not supported by stream queues {self}")

    def purge(self) -> int:
        raise NotImplementedByServer(f"queue.purge not supported by stream queues {self}")

    # --- on the disk

    def recovered(self, now: float, locked: LockedEntries | None = None) -> None:
        self._retain(now)

    def keeps(self, message: Message) -> bool:
        return self._writer is not None

    def _durable(self, segment: StreamSegment, end: int) -> DurableSegment:
        return DurableSegment(
            vhost=self._owner.name,
            stream=self.name,
            first=segment.first,
            end=end,
            octets=segment.body_bytes,
            last_time=segment.last_time,
        )

    def durables(self) -> list[DurableSegment]:
        """Return the records that are kept of the stream beside its messages."""
        return [self._durable(each, following.first) for each, following in pairwise(self._segments)]

    def recover(self, found: DurableSegment) -> None:
        """Restore a segment from before. Segments must come in their order."""
        last = self._segments[-1]
        ended, last = StreamSegment(found.first, found.octets), StreamSegment(found.end, last.body_bytes - found.octets)
        ended.last_time = found.last_time
        self._segments[-1:] = [ended, last]

    @property
    def bytes_in_memory(self) -> int:
        return self._log.bytes_in_memory

    def page_out(self, page_store: PageStore, most: int) -> int:
        return self._log.page_out(page_store, most)

    def discard(self) -> None:
        self._log.discard()
        self._places.clear()
        self._chunks.clear()

    # --- settling: it only makes room for more deliveries

    def ack(self, entries: list[QueueEntry], now: float) -> None:
        consumers: dict[Consumer, None] = {}
        for entry in entries:
            self._release(entry)
            if entry.consumer is not None:
                consumers[entry.consumer] = None
        for consumer in consumers:
            self._wake(consumer, now)

    def reject(self, entries: Iterable[QueueEntry], now: float) -> None:
        if self._profile.stream_takes_rejects:
            self.ack(list(entries), now)
            return
        self.give_back(entries, now)
        raise self._refusal()

    def requeue(self, entries: Iterable[QueueEntry], now: float) -> None:
        self.reject(entries, now)

    def give_back(self, entries: Iterable[QueueEntry], now: float) -> None:
        for entry in entries:
            self._release(entry)

    def settling(self, entries: list[QueueEntry], outcome: str, now: float) -> Generator[None, float, float]:
        consumers: dict[Consumer | None, None] = {}
        quantum = self._quantum
        while entries:
            entry = entries.pop()
            consumers[entry.consumer] = None
            self._release(entry)
            quantum.left -= 1
            if entries and quantum.left <= 0 and quantum.is_over():
                now = yield
        if outcome is ACK or (outcome is not GIVE_BACK and self._profile.stream_takes_rejects):
            for consumer in consumers:
                if consumer is not None:
                    self._wake(consumer, now)
        elif outcome is not GIVE_BACK:
            raise self._refusal()
        return now

    def hold_back(self) -> None:
        """Hold nothing back: messages never come back to a stream."""

    def hold_no_more(self, now: float) -> None:
        """Release nothing, as nothing is held back."""

    def _refusal(self) -> NotImplementedByServer:
        return NotImplementedByServer(f"basic.nack and basic.reject not supported by stream queues {self}")

    def _release(self, entry: QueueEntry) -> None:
        self.unacked -= 1
        if entry.consumer is not None:
            entry.consumer.unacked -= 1
            entry.consumer.deliveries.held -= 1

    # --- reading

    def check_consumer(self, *, exclusive: bool, no_ack: bool, prefetch: int, is_limited: bool) -> None:
        if not prefetch:
            raise PreconditionFailed(
                f"consumer prefetch count is not set for {self._profile.prefetch_text.format(queue=self)}"
            )
        if no_ack:
            raise NotImplementedByServer(
                f"automatic acknowledgement not supported by {self._profile.stream_text.format(queue=self)}"
            )
        if is_limited:
            raise NotImplementedByServer(f"{self} does not support global qos")

    def subscribe(self, consumer: Consumer, now: float) -> None:
        self.consumers[consumer] = None
        self._places[consumer] = self._offset(consumer.arguments, now)

    def unsubscribe(self, consumer: Consumer, now: float) -> None:
        self.consumers.pop(consumer, None)
        self._places.pop(consumer, None)
        self._chunks.pop(consumer, None)
        consumer.is_blocked = False
        if not self._places:
            self._log.forget_what_was_read()

    def rejoin(self, consumer: Consumer) -> bool:
        return consumer in self._places

    def pump(self, now: float) -> None:
        for consumer in list(self._places):
            self._wake(consumer, now)

    def _wake(self, consumer: Consumer, now: float) -> None:
        """Feed a consumer that may be able to take again."""
        if consumer in self._places:
            consumer.is_blocked = False
            self._feed(consumer, now)

    def _feed(self, consumer: Consumer, now: float) -> None:
        """Send a consumer its next messages, as far as it can take them."""
        log = self._log
        try:
            self._feed_from(max(self._places[consumer], log.first), consumer, now)
        except Exception as error:  # noqa: BLE001 - the client that publishes or settles is not at fault
            self._owner.failed(self, "reading failed", error)

    def _feed_from(self, offset: int, consumer: Consumer, now: float) -> None:
        log, quantum = self._log, self._quantum
        chunk = self._chunks.get(consumer)
        run: MessageRun | None = None
        while offset < log.next:
            if not consumer.deliveries.takes(consumer):
                consumer.is_blocked = True
                break
            if run is None or offset >= run.end:
                run = log.run(offset, max(consumer.prefetch - consumer.unacked, LEAST_READ))
            message = run.messages[offset - run.first]
            if message is DAMAGED:
                offset += 1
                continue
            time = run.times[offset - run.first]
            if time != chunk:
                if not consumer.is_ready():
                    consumer.is_blocked = True
                    break
                self._chunks[consumer] = chunk = time
            entry = QueueEntry(self, message, offset, NEVER)
            entry.header = header_with(entry.message, Field("x-stream-offset", "l", offset))
            offset += 1
            self._places[consumer] = offset
            self._hand_out(entry, consumer, now)
            if quantum.spend(1):
                self._go_on_later()
                break

    def _offset(self, arguments: Table, now: float) -> int:
        """Return the first offset of a consumer: its x-stream-offset, by default the end."""
        found = field(arguments, "x-stream-offset")
        value: Any = "next" if found is None else found.value
        log = self._log
        if value == "first":
            return log.first
        if value == "last":
            return log.offset_at(log.last_time, self._segments[-1].first) if log.first < log.next else log.next
        if found is not None and found.type == "T":
            return log.offset_at(value, log.first)
        if isinstance(value, int):
            return max(value, log.first)
        seconds = interval(value)
        return log.next if seconds is None else log.offset_at(now - seconds, log.first)

    # --- deletion

    def check_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Allow the deletion: RabbitMQ deletes a stream whatever the client asks for."""
