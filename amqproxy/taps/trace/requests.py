"""Requests that await their replies, on one channel, from one peer."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from amqproxy.amqp091.methods import BasicConsume, BasicConsumeOk, Method
from amqproxy.amqp091.transitions import ANSWERS
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.consumers import REPLY_TO, LastQueue

MAX_PENDING = 1024
"""Requests of one kind that one peer has sent on a channel and without an answer; those beyond are not remembered."""

REQUEST_COST = 512
"""Bytes that a request is counted as, besides `TABLE_COST` times its size."""

TABLE_COST = 8
"""Bytes that a byte of a method is counted as: decoded, a table is so many times as large."""


class TimedRequest(NamedTuple):
    """A request and the time at which it was sent.

    `last` is the queue that the channel had declared last by then, itself included; `number` numbers requests that
    begin or end consumers.
    """

    ts_ns: int
    request: Method
    last: LastQueue = None
    number: int = 0
    cost: int = 0


class PendingRequests:
    """Requests by their names, the oldest first.

    RabbitMQ answers out of turn between kinds, never within one but for basic.consume, whose replies name the consumer.
    After `lose`, a reply may be to a request that was not seen: so no request is remembered, and none is matched.
    """

    __slots__ = ("_beyond", "_budget", "_by_name", "_is_lost")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._by_name: dict[str, deque[TimedRequest]] = {}
        self._beyond: dict[str, int] = {}
        self._is_lost = False

    @property
    def is_empty(self) -> bool:
        """Is none pending, nor any beyond those that are remembered?"""
        return not (self._by_name or self._beyond)

    def add(self, ts_ns: int, request: Method, *, size: int = 0, last: LastQueue = None, number: int = 0) -> None:
        """Remember a request; `size` is that of its frame."""
        if self._is_lost:
            return
        name = request.name
        pending = self._by_name.get(name)
        if pending is None:
            pending = self._by_name[name] = deque()
        cost = REQUEST_COST + TABLE_COST * size
        if len(pending) >= MAX_PENDING or name in self._beyond or not self._budget.take(cost):
            self._beyond[name] = self._beyond.get(name, 0) + 1
            if name == "basic.consume":  # replies to these may come out of turn
                self._put_beyond(pending, list(pending))
        else:
            pending.append(TimedRequest(ts_ns, request, last, number, cost))

    def expects(self, reply: Method) -> bool:
        """May `reply` be to one of these, or to one that is not remembered?"""
        name = ANSWERS[reply.name]
        if self._is_lost or name in self._beyond:
            return True
        pending = self._by_name.get(name, ())
        if not isinstance(reply, BasicConsumeOk):
            return bool(pending)
        tag = reply.consumer_tag
        tags = {getattr(each.request, "consumer_tag", "") for each in pending}
        return tag in tags or (tag.startswith("amq.") and "" in tags)

    def match(self, reply: Method) -> TimedRequest | None:
        """The request that `reply` answers; None when it is not known."""
        name = ANSWERS[reply.name]
        pending = self._by_name.get(name)
        if pending and isinstance(reply, BasicConsumeOk):
            if name in self._beyond:
                self._put_beyond(pending, list(pending))
            found = self._consume(pending, reply.consumer_tag)
        else:
            found = pending[0] if pending else None
        if pending and found is not None:
            pending.remove(found)
            self._budget.give(found.cost)
            if not pending:
                del self._by_name[name]
        elif name in self._beyond:
            self._beyond[name] -= 1
            if not self._beyond[name]:
                del self._beyond[name]
        return found

    def _consume(self, pending: deque[TimedRequest], tag: str) -> TimedRequest | None:
        """The basic.consume that is answered with that tag, which the client has chosen, or else the broker."""
        named, unnamed = [], []
        for each in pending:
            consume = each.request
            assert isinstance(consume, BasicConsume)
            if consume.consumer_tag == tag:
                named.append(each)
            elif not consume.consumer_tag:
                unnamed.append(each)
        found = named or unnamed
        if len({getattr(each.request, "queue", "") == REPLY_TO for each in found}) < 2:
            return found[0] if found else None
        self._put_beyond(pending, found)  # RabbitMQ answers those for direct replies at once: which one is this?
        return None

    def _put_beyond(self, pending: deque[TimedRequest], consumes: list[TimedRequest]) -> None:
        """Forget some of the basic.consume."""
        for each in consumes:
            pending.remove(each)
            self._budget.give(each.cost)
        if consumes:
            self._beyond["basic.consume"] = self._beyond.get("basic.consume", 0) + len(consumes)

    def of_kind(self, name: str) -> list[Method] | None:
        """The requests of that name, the oldest first; None if there are more than are remembered."""
        return None if name in self._beyond else [each.request for each in self._by_name.get(name, ())]

    def lose(self) -> None:
        """Requests or replies were missed."""
        self.clear()
        self._is_lost = True

    def clear(self) -> list[TimedRequest]:
        """All that were pending, in the order of their times; none is any more."""
        found = sorted((each for pending in self._by_name.values() for each in pending), key=lambda each: each.ts_ns)
        self._by_name.clear()
        self._beyond.clear()
        self._budget.give(sum(each.cost for each in found))
        return found
