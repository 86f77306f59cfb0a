"""Consumers of one channel, to the extent known from its frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from amqproxy.amqp091.methods import BasicConsume
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.snapshot import ConsumerSnapshot

CONSUMER_COST = 1024
"""Memory charged for a consumer, in bytes: its tag and the name of its queue have up to 255 each."""

REPLY_TO = "amq.rabbitmq.reply-to"
"""RabbitMQ's pseudo-queue for direct replies: consuming from it involves no queue."""

MAX_ENDING = 64
"""Limit on the consumers of one channel that are remembered after a basic.cancel with `no_wait`."""


class DeclaredQueue:
    """A queue that the channel has declared without a name; `name` is None until the broker has chosen one."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name: str | None = None


LastQueue = str | DeclaredQueue | None
"""The queue that a channel has declared last, which an empty name stands for. Section 1.7.2.1."""


def queue_name(name: str, last: LastQueue) -> str | None:
    """Return the queue that a method means by `name`, if empty the last declared queue; `None` if it is unknown."""
    if name:
        return name
    return last.name if isinstance(last, DeclaredQueue) else last


class ObservedConsumer(NamedTuple):
    """A basic.consume: the client's nth request of consumers; `last` is the queue that it had declared by then."""

    tag: str
    number: int
    consume: BasicConsume
    last: LastQueue

    @property
    def queue(self) -> str | None:
        return queue_name(self.consume.queue, self.last)


class Consumers:
    """Consumers by tag.

    With `no_wait`, no frame shows when the broker begins or ends a consumer: a tag may then stand for one of several
    consumers, until a reply to a later request shows which.
    """

    __slots__ = ("_budget", "_by_tag", "_ending", "_is_complete", "_sent", "count")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._by_tag: dict[str, tuple[ObservedConsumer, ...]] = {}
        self._ending: list[tuple[str, int]] = []
        self._is_complete = True
        self._sent = 0
        self.count = 0
        """Number of consumers that may exist."""

    def number(self) -> int:
        """Return the number of the basic.consume or basic.cancel that the client sends: the next one."""
        self._sent += 1
        return self._sent

    def begin(self, tag: str, number: int, consume: BasicConsume, last: LastQueue) -> None:
        """Record that the broker has begun a consumer: every consumer that had its tag before has ended.

        RabbitMQ answers consumers of direct replies at once, though deliveries to an earlier one may be under way.
        """
        if consume.queue == REPLY_TO:
            self.may_begin(tag, number, consume, last)
        else:
            self._keep(tag, after=number)
            self._add(tag, number, consume, last)

    def may_begin(self, tag: str, number: int, consume: BasicConsume, last: LastQueue) -> None:
        """Record a basic.consume with `no_wait`; without a tag, the broker chooses one and does not send it."""
        if self._is_complete:  # else an unknown consumer may have the same tag
            self._add(tag, number, consume, last)

    def _add(self, tag: str, number: int, consume: BasicConsume, last: LastQueue) -> None:
        if self._budget.take(CONSUMER_COST):
            self._by_tag[tag] = (*self._by_tag.get(tag, ()), ObservedConsumer(tag, number, consume, last))
            self.count += 1
        else:
            self.begin_unknown(tag)

    def begin_unknown(self, tag: str) -> None:
        """Record that the broker has begun a consumer whose basic.consume is unknown."""
        self._is_complete = False
        self._keep(tag, after=self._sent)

    def end(self, tag: str, number: int) -> None:
        """Record that the broker has answered the basic.cancel with this number."""
        self._keep(tag, after=number)

    def may_end(self, tag: str, number: int) -> None:
        """Record a basic.cancel with `no_wait`: deliveries to the consumer may still be under way."""
        if tag not in self._by_tag:
            return
        self._ending.append((tag, number))
        if len(self._ending) > MAX_ENDING:
            self._is_complete = False
            oldest, number = self._ending.pop(0)
            self._keep(oldest, after=number)

    def end_by_broker(self, tag: str) -> None:
        """Record that the broker has cancelled a consumer; ignored if the tag may stand for several."""
        if len(self._by_tag.get(tag, ())) == 1:
            self._keep(tag, after=self._sent)

    def snapshots(self) -> tuple[ConsumerSnapshot, ...]:
        """Return the consumers for a snapshot."""
        return tuple(
            ConsumerSnapshot(
                tag=each.tag,
                queue=each.queue,
                no_ack=each.consume.no_ack,
                exclusive=each.consume.exclusive,
                number=each.number,
            )
            for alike in self._by_tag.values()
            for each in alike
        )

    def restore(self, snapshots: Iterable[ConsumerSnapshot], *, is_complete: bool, sent: int) -> None:
        """Take the consumers of a snapshot; the client has sent `sent` requests that begin or end consumers."""
        self._is_complete = is_complete
        for each in snapshots:
            consume = BasicConsume(
                queue=each.queue or "", consumer_tag=each.tag, no_ack=each.no_ack, exclusive=each.exclusive
            )
            self._add(each.tag, each.number, consume, None)
            sent = max(sent, each.number)
        self._sent = sent

    @property
    def is_complete(self) -> bool:
        """Whether all consumers are known that may exist."""
        return self._is_complete

    def find(self, tag: str) -> tuple[ObservedConsumer, ...]:
        """Return the consumers that a delivery with this tag may be for; empty if they are unknown."""
        found = self._by_tag.get(tag)
        if found is None and self._is_complete:
            found = self._by_tag.get("")
        return found or ()

    def may_have(self, tag: str) -> bool:
        """Whether a consumer with this tag may exist."""
        return not self._is_complete or tag in self._by_tag or "" in self._by_tag

    def lose(self) -> None:
        """Forget all consumers, since frames were missed: others may have begun and ended unseen."""
        self.clear()
        self._is_complete = False

    def clear(self) -> None:
        self._ending.clear()
        for tag in tuple(self._by_tag):
            self._keep(tag, after=self._sent)

    def _keep(self, tag: str, *, after: int) -> None:
        """Forget the consumers with this tag, except those whose basic.consume has a number above `after`."""
        found = self._by_tag.pop(tag, ())
        kept = tuple(each for each in found if each.number > after)
        self.count -= len(found) - len(kept)
        self._budget.give(CONSUMER_COST * (len(found) - len(kept)))
        if kept:
            self._by_tag[tag] = kept
