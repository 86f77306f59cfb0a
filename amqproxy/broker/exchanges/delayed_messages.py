"""Messages that the delayed exchanges of a virtual host hold until each is due.

A durable exchange also stores its messages, persistent or not, in a message log, as RabbitMQ's plugin does.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.message import Message
from amqproxy.broker.queues.paged_messages import MESSAGE_COST
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.schedule import Schedule
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.message_log import MessageLog
from amqproxy.broker.storage.packing import DAMAGED
from amqproxy.broker.work import Container

PART = 16
"""Messages processed between two checks whether the turn is over."""

READ_AHEAD = 256
"""Messages read back at once, because messages that arrived together are usually due together."""


AGAIN_AFTER = 1.0
"""Seconds until reading back a message is retried after a failure."""


class DelayedMessage:
    """One held message; with a message log, `message` may be `None`: then it is only on disk."""

    __slots__ = ("batch", "exchange", "message", "message_log", "position")

    def __init__(
        self, exchange: Exchange, message: Message | None, message_log: MessageLog | None, position: int
    ) -> None:
        self.exchange = exchange
        self.message = message
        self.message_log = message_log
        self.position = position
        self.batch = message_log.journal.number if message_log is not None else 0


class ExchangeDelayedMessages:
    """Messages that one exchange holds, by due time, and their approximate bytes of memory."""

    __slots__ = ("bytes_in_memory", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, DelayedMessage]] = []
        self.bytes_in_memory = 0


class DelayedMessages:
    """Delayed messages of a virtual host by due time in seconds.

    `sooner` is called with the due time of a message that becomes the first. `bytes_in_memory` is the approximate
    memory of all held messages.
    """

    def __init__(self, vhost: str, sooner: Callable[[float], None] = lambda when: None) -> None:
        self.storage: QueueStorage | None = None
        self.bytes_in_memory = 0
        self._vhost = vhost
        self._exchanges: dict[Exchange, ExchangeDelayedMessages] = {}
        """The exchanges that hold messages."""
        self._due: Schedule[Exchange] = Schedule(sooner)
        self._numbers = itertools.count()
        self._read: tuple[int, dict[int, Message]] = (0, {})
        self._ahead = READ_AHEAD
        self._count_read = 0

    def __len__(self) -> int:
        return sum(len(each.heap) for each in self._exchanges.values())

    def __iter__(self) -> Iterator[tuple[float, Exchange, Message]]:
        """Iterate over due time, exchange and message of all held messages in the order of their times."""
        found = sorted((held for each in self._exchanges.values() for held in each.heap), key=_by_time)
        return ((when, each.exchange, self._message(each)) for when, _, each in found)

    def hold(self, when: float, exchange: Exchange, message: Message) -> bool:
        """Hold a message for an exchange until `when`; return whether it is also stored on disk."""
        message_log = None
        if self.storage is not None and exchange.durable:
            message_log = self.storage.journal.message_log(LogOwner("exchange", self._vhost, exchange.name))
            message_log.enqueued(message_log.last + 1, message, when)
        self._push(when, DelayedMessage(exchange, message, message_log, 0 if message_log is None else message_log.last))
        return message_log is not None

    def recover(self, exchanges: Iterable[Exchange]) -> None:
        """Hold the messages stored in the message logs of these exchanges before the restart."""
        if self.storage is None:
            return
        for exchange in exchanges:
            message_log = self.storage.journal.message_logs.get(LogOwner("exchange", self._vhost, exchange.name))
            if message_log is not None:
                times, numbers = self.storage.times(message_log.number), self._numbers
                here = ExchangeDelayedMessages()
                here.heap = [
                    (when, next(numbers), DelayedMessage(exchange, None, message_log, position))
                    for position, when in times
                ]
                if here.heap:
                    heapq.heapify(here.heap)
                    self._exchanges[exchange] = here
                    self._due.set(exchange, here.heap[0][0])

    def drop(self, exchange: Exchange) -> Container:
        """Remove a deleted exchange and return its held messages; the caller must delete its message log."""
        here = self._exchanges.pop(exchange, None)
        if here is None:
            return []
        self._due.drop(exchange)
        self.bytes_in_memory -= here.bytes_in_memory
        self._read = (0, {})
        return here.heap

    @property
    def next(self) -> float:
        """The due time of the next message."""
        return self._due.next

    def pop_due(self, now: float = 0.0) -> tuple[Exchange, Message]:
        """Remove and return the next message, which must exist; it is `DAMAGED` if it is lost on disk.

        If the disk cannot be read at all, the message is due again `AGAIN_AFTER` seconds later and the failure is
        raised.
        """
        exchange = self._due.take_first(math.inf)
        assert exchange is not None
        here = self._exchanges[exchange]
        held = heapq.heappop(here.heap)[2]
        if here.heap:
            self._due.set(exchange, here.heap[0][0])
        else:
            del self._exchanges[exchange]
        self._count(here, -_cost(held))
        try:
            message = self._message(held)
        except Exception:
            self._push(now + AGAIN_AFTER, held)
            raise
        held.message = None
        if held.message_log is not None:
            held.message_log.settled(held.position, len(message.body), is_used=False)
        return held.exchange, message

    def paging_out(self) -> Iterator[tuple[int, int]]:
        """Drop messages that are safely on disk from memory, in parts.

        Yields the number of messages processed and of bytes freed for each part.
        """
        for exchange, here in list(self._exchanges.items()):
            found = list(here.heap)
            for start in range(0, len(found), PART):
                if self._exchanges.get(exchange) is not here:
                    break
                before = here.bytes_in_memory
                for _, _, held in found[start : start + PART]:
                    if _is_on_disk(held):
                        self._count(here, -_cost(held))
                        held.message = None
                yield PART, before - here.bytes_in_memory

    def _count(self, here: ExchangeDelayedMessages, difference: int) -> None:
        here.bytes_in_memory += difference
        self.bytes_in_memory += difference

    def _push(self, when: float, held: DelayedMessage) -> None:
        here = self._exchanges.get(held.exchange)
        if here is None:
            here = self._exchanges[held.exchange] = ExchangeDelayedMessages()
        heapq.heappush(here.heap, (when, next(self._numbers), held))
        self._count(here, _cost(held))
        if here.heap[0][0] == when:
            self._due.set(held.exchange, when)

    def _message(self, held: DelayedMessage) -> Message:
        if held.message is not None:
            return held.message
        assert held.message_log is not None
        assert self.storage is not None
        log_number, position = held.message_log.number, held.position
        if self._read[0] != log_number or position not in self._read[1]:
            # Reading ahead only pays if messages are due in the order of their arrival: adapt its length to the hits.
            unused = len(self._read[1])
            if not unused:
                self._ahead = min(2 * self._ahead, READ_AHEAD)
            elif 2 * unused >= self._count_read:
                self._ahead = max(1, self._ahead // 4)
            rows = self.storage.fetch(log_number, position, self._ahead)
            self._count_read = len(rows)
            self._read = log_number, {row.position: row.message for row in rows}
        return self._read[1].pop(position, DAMAGED)


def _is_on_disk(held: DelayedMessage) -> bool:
    message_log = held.message_log
    return (
        message_log is not None
        and held.batch <= message_log.journal.last_committed
        and held.position not in message_log.refused
    )


def _cost(held: DelayedMessage) -> int:
    return 0 if held.message is None else len(held.message.body) + MESSAGE_COST


def _by_time(held: tuple[float, int, Any]) -> tuple[float, int]:
    return held[:2]
