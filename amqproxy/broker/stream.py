"""Streams: a log that is appended to, and read from any place by as many as want to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from amqproxy.amqp091.errors import NotImplementedByServer, PreconditionFailed
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.arguments import field
from amqproxy.broker.backlog import NEVER, Entry
from amqproxy.broker.message import Message, header_with
from amqproxy.broker.queue import Queue
from amqproxy.broker.queue_arguments import interval

if TYPE_CHECKING:
    from amqproxy.broker.consumer import Consumer


class Segment:
    """A part of the log that goes as a whole. `chunks` are the first offsets of what came at one time, and `times` when
    that was.
    """

    __slots__ = ("chunks", "first", "messages", "octets", "times")

    def __init__(self, first: int) -> None:
        self.first = first
        self.messages: list[Message] = []
        self.octets = 0
        self.chunks: list[int] = []
        self.times: list[float] = []


class Stream(Queue):
    """Reading takes nothing away. Whole segments go, from the oldest, when a new one begins and the limits say so."""

    type: ClassVar[str] = "stream"
    __slots__ = ("_next", "_places", "_segments")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._segments = [Segment(0)]
        self._next = 0
        self._places: dict[Consumer, int] = {}
        super().__init__(*arguments, **{**options, "keeper": None})

    @property
    def first_offset(self) -> int:
        return self._segments[0].first

    @property
    def next_offset(self) -> int:
        return self._next

    @property
    def message_count(self) -> int:
        return self._next - self.first_offset

    @property
    def consumer_count(self) -> int:
        """RabbitMQ does not tell."""
        return 0

    def __iter__(self) -> Iterator[Message]:
        for segment in self._segments:
            yield from segment.messages

    def publish(self, message: Message, now: float) -> bool:
        segment = self._segments[-1]
        if segment.octets >= self.settings.segment_size:
            segment = Segment(self._next)
            self._segments.append(segment)
            self._retain(now)
        if not segment.times or segment.times[-1] != now:
            segment.chunks.append(self._next)
            segment.times.append(now)
        segment.messages.append(message)
        segment.octets += len(message.body)
        self.octets += len(message.body)
        self._next += 1
        for consumer in [each for each in self._places if not each.is_blocked]:
            self._feed(consumer, now)
        return True

    def _retain(self, now: float) -> None:
        """Drop the oldest segments that are too much, or too old. The one that is written stays."""
        limit, age = self.settings.max_octets, self.settings.max_age
        while len(self._segments) > 1:
            oldest = self._segments[0]
            is_surplus = limit is not None and self.octets > limit
            if not is_surplus and (age is None or oldest.times[-1] > now - age):
                break
            self.octets -= oldest.octets
            del self._segments[0]

    def get(self, now: float) -> Entry | None:
        raise NotImplementedByServer(f"basic.get not supported by stream queues {self}")

    def purge(self) -> int:
        raise NotImplementedByServer(f"queue.purge not supported by stream queues {self}")

    # --- settling: it gives room for more, and that is all

    def ack(self, entries: Iterable[Entry], now: float) -> None:
        consumers: dict[Consumer, None] = {}
        for entry in entries:
            self._release(entry)
            if entry.consumer is not None:
                consumers[entry.consumer] = None
        for consumer in consumers:
            self.wake(consumer, now)

    def reject(self, entries: Iterable[Entry], now: float) -> None:
        self.give_back(entries, now)
        raise NotImplementedByServer(f"basic.nack and basic.reject not supported by stream queues {self}")

    def requeue(self, entries: Iterable[Entry], now: float) -> None:
        self.reject(entries, now)

    def give_back(self, entries: Iterable[Entry], now: float) -> None:
        for entry in entries:
            self._release(entry)

    def _release(self, entry: Entry) -> None:
        self.unacked -= 1
        if entry.consumer is not None:
            entry.consumer.unacked -= 1
            entry.consumer.channel.held -= 1

    # --- reading

    def check_consumer(self, *, exclusive: bool, no_ack: bool, prefetch: int, is_limited: bool) -> None:
        if not prefetch:
            raise PreconditionFailed(f"consumer prefetch count is not set for '{self}'")
        if no_ack:
            raise NotImplementedByServer(f"automatic acknowledgement not supported by stream queues {self}")
        if is_limited:
            raise NotImplementedByServer(f"{self} does not support global qos")

    def subscribe(self, consumer: Consumer, now: float) -> None:
        self.consumers[consumer] = None
        self._places[consumer] = self._offset(consumer.arguments, now)

    def unsubscribe(self, consumer: Consumer, now: float) -> None:
        self.consumers.pop(consumer, None)
        self._places.pop(consumer, None)
        consumer.is_blocked = False

    def wake(self, consumer: Consumer, now: float) -> None:
        if consumer in self._places:
            consumer.is_blocked = False
            self._feed(consumer, now)

    def pump(self, now: float) -> None:
        for consumer in list(self._places):
            self.wake(consumer, now)

    def _feed(self, consumer: Consumer, now: float) -> None:
        """Send a consumer what comes next for it, as far as it can take that."""
        offset = max(self._places[consumer], self.first_offset)
        if offset >= self._next:
            return
        place = self._segment_at(offset)
        segment = self._segments[place]
        while offset < self._next:
            if not consumer.is_ready:
                consumer.is_blocked = True
                break
            if offset == segment.first + len(segment.messages):
                place += 1
                segment = self._segments[place]
            entry = Entry(self, segment.messages[offset - segment.first], offset, NEVER)
            entry.header = header_with(entry.message, Field("x-stream-offset", "l", offset))
            offset += 1
            self._places[consumer] = offset
            self._hand_out(entry, consumer, now)

    def _segment_at(self, offset: int) -> int:
        return bisect_right(self._segments, offset, key=lambda segment: segment.first) - 1

    def _offset(self, arguments: Table, now: float) -> int:
        """Where a consumer begins: x-stream-offset, which is the end unless it says otherwise."""
        found = field(arguments, "x-stream-offset")
        value: Any = "next" if found is None else found.value
        if value == "first":
            return self.first_offset
        if value == "last":
            last = [segment for segment in self._segments if segment.chunks]
            return last[-1].chunks[-1] if last else self._next
        if found is not None and found.type == "T":
            return self._offset_at(value)
        if isinstance(value, int):
            return max(value, self.first_offset)
        seconds = interval(value)
        return self._next if seconds is None else self._offset_at(now - seconds)

    def _offset_at(self, when: float) -> int:
        """The first offset of what came at that time or later."""
        for segment in self._segments:
            if segment.times and segment.times[-1] >= when:
                return segment.chunks[bisect_left(segment.times, when)]
        return self._next

    # --- its end

    def check_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """RabbitMQ deletes a stream whatever is asked."""
