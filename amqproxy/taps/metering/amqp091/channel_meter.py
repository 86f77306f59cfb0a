"""Meter of one channel: its open publishes, deliveries, consumers and requests."""

from __future__ import annotations

from collections import deque

from amqproxy.amqp091.methods import BasicCancel, BasicCancelOk, BasicConsume, BasicConsumeOk, Method
from amqproxy.taps.metering.amqp091.open_messages import OpenMessages
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.consumers import Consumers
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.requests import PendingRequests, TimedRequest
from amqproxy.taps.trace.snapshot import UNKNOWN_CONSUMER

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import is_at

MAX_SETTLEMENTS = 65_536
"""Limit on the acknowledgements of one connection that await a commit; those beyond it count at once."""

_CONFIRMED = cython.declare(cython.int, Count.CONFIRMED)
_NACKED = cython.declare(cython.int, Count.NACKED)
_REQUEUED = cython.declare(cython.int, Count.REQUEUED)
_UNTIMED = cython.declare(cython.int, Count.UNTIMED)
_UNCONFIRMED = cython.declare(cython.int, Count.UNCONFIRMED)
_UNACKED = cython.declare(cython.int, Count.UNACKED)
_CONSUMERS = cython.declare(cython.int, Count.CONSUMERS)

# An entry that waits for the end of a transaction is a `Count` with a tag, or one of these.
_COMMIT = -1
_ROLLBACK = -2


@cython.final
@cython.cclass
class ChannelMeter:
    """Meter of one channel, which adds to `counts`.

    `confirms` is whether publishes are confirmed, `is_unread` whether the broker has closed the channel, and no longer
    reads what the client sends.
    """

    def __init__(self, counts: MessageCounts) -> None:
        self._counts = counts
        self.confirms = False
        self.is_unread = False
        self._closed_by_client = False
        self._published = 0
        self._unconfirmed: OpenMessages | None = None
        self._unacked: OpenMessages | None = None
        self._consumers: Consumers | None = None
        self._consumer_count = 0
        self._has_auto_acks = False
        self._recent_tag: bytes | None = None
        self._is_recent_auto_acked = False
        self._pending: PendingRequests | None = None
        self._recovering = 0
        self._settlements: deque[tuple[int, int, bool]] | None = None
        self._room: Budget | None = None

    @property
    def unconfirmed(self) -> int:
        """Number of publishes neither confirmed nor nacked."""
        return 0 if self._unconfirmed is None else self._unconfirmed.count

    @property
    def unacked(self) -> int:
        """Number of deliveries that the client has to settle."""
        return 0 if self._unacked is None else self._unacked.count

    @property
    def consumers(self) -> int:
        """Number of the client's consumers."""
        return self._consumer_count

    # --- snapshots

    @property
    def has_forgotten(self) -> bool:
        """Whether more publishes or deliveries may be open than those that are counted."""
        return any(each is not None and each.forgotten for each in (self._unconfirmed, self._unacked))

    @property
    def is_recovering(self) -> bool:
        """Whether a basic.recover of the client is unanswered."""
        return self._recovering > 0

    def open_publishes(self, most: int, offset_ns: int) -> tuple[Span, ...]:
        """Return the newest ranges of unconfirmed publishes, as `OpenMessages.spans` does."""
        return () if self._unconfirmed is None else self._unconfirmed.spans(most, offset_ns, None)

    def open_deliveries(self, most: int, offset_ns: int) -> tuple[Span, ...]:
        """Return the newest ranges of unsettled deliveries, as `OpenMessages.spans` does."""
        return () if self._unacked is None else self._unacked.spans(most, offset_ns, UNKNOWN_CONSUMER)

    def requests(self) -> list[TimedRequest] | None:
        """Return the client's unanswered requests, oldest first; `None` if some are not remembered."""
        return [] if self._pending is None else self._pending.in_order()

    # --- its end

    @property
    def is_closing(self) -> bool:
        """Whether a peer has closed the channel."""
        return self.is_unread or self._closed_by_client

    def close(self, by_server: bool) -> None:
        """Note channel.close of a peer."""
        if by_server:
            self.is_unread = True
        else:
            self._closed_by_client = True

    def close_answered(self, by_server: bool) -> bool:
        """Note channel.close-ok of a peer; return whether the channel has ended. Section 1.5.2.5; closes may cross."""
        if by_server:
            self._closed_by_client = False
        else:
            self.is_unread = False
        return not self.is_closing

    # --- publishes

    def published(self, now_ns: cython.ulonglong, count: cython.longlong = 1) -> None:
        """Open `count` publishes of the client that will be confirmed."""
        unconfirmed = self._unconfirmed
        if unconfirmed is None:
            unconfirmed = self._unconfirmed = OpenMessages()
        before: cython.longlong = unconfirmed.count
        unconfirmed.add(self._published + 1, now_ns, count)
        self._published += count
        self._counts._values[_UNCONFIRMED] += unconfirmed.count - before

    def confirm(
        self,
        tag: cython.ulonglong,
        multiple: cython.bint,
        is_nack: cython.bint,
        now_ns: cython.ulonglong,
        count: cython.longlong = 1,
    ) -> None:
        """Settle publishes by `count` frames of the broker with successive tags."""
        unconfirmed = self._unconfirmed
        if unconfirmed is None:
            return
        settled: cython.longlong = 0
        if multiple or count == 1:
            settled = self._settled(unconfirmed, tag, multiple, now_ns, True)
            tag += 1
            count -= 1
        if count > 0:  # after the first multiple one, each settles at most its own tag
            settled += self._settled_range(unconfirmed, tag, count, now_ns, True)
        self._counts._values[_NACKED if is_nack else _CONFIRMED] += settled
        self._counts._values[_UNCONFIRMED] -= settled

    # --- deliveries

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def is_auto_acked(self, p: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
        """Whether deliveries to the consumer with the tag at `at` are known to need no acknowledgement."""
        if not self._has_auto_acks or self._consumers is None:
            return False
        if self._recent_tag is None or not is_at(p, at, size, self._recent_tag):
            consumer_tag = bytes(p[at : at + size])
            modes = {
                each.consume.no_ack for each in self._consumers.find(consumer_tag.decode("utf-8", "surrogateescape"))
            }
            self._recent_tag = consumer_tag
            self._is_recent_auto_acked = modes == {True}
        return self._is_recent_auto_acked

    def delivered(self, tag: cython.ulonglong, now_ns: cython.ulonglong, count: cython.longlong = 1) -> None:
        """Open `count` deliveries with successive tags from `tag`, which the client has to settle."""
        unacked = self._unacked
        if unacked is None:
            unacked = self._unacked = OpenMessages()
        before: cython.longlong = unacked.count
        unacked.add(tag, now_ns, count)
        self._counts._values[_UNACKED] += unacked.count - before

    def settle_run(
        self,
        tag: cython.ulonglong,
        tags: cython.longlong,
        multiple: cython.bint,
        count: cython.int,
        now_ns: cython.ulonglong,
    ) -> None:
        """Take `tags` settlements of successive tags from `tag`, none of which is 0."""
        unacked = self._unacked
        settled: cython.longlong
        if unacked is None or self._recovering:
            return
        if multiple or self._settlements is not None:
            while tags:
                self.settle(tag, multiple, count, now_ns)
                tag += 1
                tags -= 1
            return
        settled = self._settled_range(unacked, tag, tags, now_ns, False)
        self._counts._values[count] += settled
        self._counts._values[_UNACKED] -= settled

    def settle(self, tag: cython.ulonglong, multiple: cython.bint, count: cython.int, now_ns: cython.ulonglong) -> None:
        """Settle deliveries for the client, counted as `count`; in a transaction, once it is committed."""
        unacked = self._unacked
        if unacked is None or self._recovering or (tag and not unacked.is_open(tag)):
            return  # RabbitMQ closes the channel with 406, and settles none
        if self._settlements is not None and self._room is not None and self._room.take(1):
            self._settlements.append((count, tag or unacked.last, multiple))
            return
        self._apply(tag, multiple, count, now_ns)

    @cython.cfunc
    def _apply(
        self, tag: cython.ulonglong, multiple: cython.bint, count: cython.int, now_ns: cython.ulonglong
    ) -> object:
        unacked = self._unacked
        if unacked is None:
            return None
        settled: cython.longlong = self._settled(unacked, tag, multiple, now_ns, False)
        self._counts._values[count] += settled
        self._counts._values[_UNACKED] -= settled
        return None

    @cython.cfunc
    def _settled(
        self,
        messages: OpenMessages,
        tag: cython.ulonglong,
        multiple: cython.bint,
        now_ns: cython.ulonglong,
        are_publishes: cython.bint,
    ) -> cython.longlong:
        counts = self._counts
        before: cython.longlong = messages.untimed
        seconds = counts.confirm_seconds if are_publishes else counts.ack_seconds
        settled: cython.longlong = messages.settle(tag, multiple, now_ns, seconds)
        counts._values[_UNTIMED] += messages.untimed - before
        return settled

    @cython.cfunc
    def _settled_range(
        self,
        messages: OpenMessages,
        tag: cython.ulonglong,
        tags: cython.longlong,
        now_ns: cython.ulonglong,
        are_publishes: cython.bint,
    ) -> cython.longlong:
        counts = self._counts
        before: cython.longlong = messages.untimed
        seconds = counts.confirm_seconds if are_publishes else counts.ack_seconds
        settled: cython.longlong = messages.settle_range(tag, tag + tags - 1, now_ns, seconds)
        counts._values[_UNTIMED] += messages.untimed - before
        return settled

    # --- rare methods

    def begin_recovery(self) -> None:
        """Note the client's basic.recover: until its answer, the broker knows no tag that is acknowledged."""
        self._recovering += 1

    def recover(self, *, is_answer: bool) -> None:
        """Count all open deliveries as requeued, including those settled in an open transaction."""
        if is_answer:
            self._recovering = max(0, self._recovering - 1)
        if self._unacked is not None:
            count = self._unacked.clear()
            self._counts._values[_REQUEUED] += count
            self._counts._values[_UNACKED] -= count

    def begin_transactions(self, room: Budget) -> None:
        """Note the client's tx.select; `room` is for the settlements of all channels, and as many ends."""
        if not self.confirms and self._settlements is None:
            self._settlements = deque()
            self._room = room

    def end_transaction(self, *, is_commit: bool) -> None:
        """End the client's transaction: later settlements belong to the next one."""
        room = self._room
        if self._settlements is not None and room is not None and room.left > -MAX_SETTLEMENTS:
            room.give(-1)
            self._settlements.append((_COMMIT if is_commit else _ROLLBACK, 0, False))

    def transaction_ended(self, now_ns: int) -> None:
        """Apply the settlements of the oldest transaction if it was committed: the broker has ended it."""
        settlements, room = self._settlements, self._room
        ended: list[tuple[int, int, bool]] = []
        while settlements and room is not None:
            each = settlements.popleft()
            room.give(1)
            if each[0] == _ROLLBACK:
                return
            if each[0] == _COMMIT:
                for count, tag, multiple in ended:
                    self._apply(tag, multiple, count, now_ns)
                return
            ended.append(each)

    def _count_consumers(self) -> None:
        """Update the count of consumers, since some may have begun or ended."""
        count = 0 if self._consumers is None else self._consumers.count
        self._counts._values[_CONSUMERS] += count - self._consumer_count
        self._consumer_count = count
        self._recent_tag = None

    def end_consumer_by_broker(self, tag: str) -> None:
        """End a consumer that the broker has cancelled."""
        if self._consumers is not None:
            self._consumers.end_by_broker(tag)
            self._count_consumers()

    def request(self, method: Method, now_ns: int, budget: Budget) -> None:
        """Take a request of the client."""
        number = 0
        if isinstance(method, (BasicConsume, BasicCancel)):
            if self._consumers is None:
                self._consumers = Consumers(budget)
            number = self._consumers.number()
            self._has_auto_acks = self._has_auto_acks or getattr(method, "no_ack", False)
        if not getattr(method, "no_wait", False):
            if self._pending is None:
                self._pending = PendingRequests(budget)
            self._pending.add(now_ns, method, number=number)
        elif isinstance(method, BasicConsume) and self._consumers is not None:
            self._consumers.may_begin(method.consumer_tag, number, method, None)
            self._count_consumers()
        elif isinstance(method, BasicCancel) and self._consumers is not None:
            self._consumers.may_end(method.consumer_tag, number)

    def answer(self, reply: Method, now_ns: int) -> TimedRequest | None:
        """Take a reply of the broker, and return its request; `None` if it is unknown."""
        pending = self._pending
        if pending is None:
            return None
        found = pending.match(reply)
        if found is not None:
            self._counts.observe_request(found.request.name, max(0, now_ns - found.ts_ns) / 1e9)
        if self._consumers is not None and isinstance(reply, (BasicConsumeOk, BasicCancelOk)):
            if found is not None and isinstance(found.request, BasicConsume):
                self._consumers.begin(reply.consumer_tag, found.number, found.request, None)
            elif found is not None:
                self._consumers.end(reply.consumer_tag, found.number)
            elif isinstance(reply, BasicConsumeOk):
                self._consumers.begin_unknown(reply.consumer_tag)
            self._count_consumers()
        if pending.is_empty:
            self._pending = None
        return found

    def end(self) -> None:
        """Forget everything open, since the channel has ended."""
        values = self._counts._values
        values[_UNCONFIRMED] -= self.unconfirmed
        values[_UNACKED] -= self.unacked
        if self._consumers is not None:
            self._consumers.clear()
            self._count_consumers()
        self._unconfirmed = self._unacked = None
        if self._room is not None and self._settlements is not None:
            self._room.give(len(self._settlements))
            self._settlements = None
        if self._pending is not None:
            self._pending.clear()
            self._pending = None
