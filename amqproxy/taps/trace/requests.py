"""Unanswered requests of one peer on one channel."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from amqproxy.amqp091.methods import BasicConsume, BasicConsumeOk, Method
from amqproxy.amqp091.transitions import ANSWERS
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.consumers import REPLY_TO, LastQueue

MAX_PENDING = 1024
"""Limit on one peer's unanswered requests of one kind on a channel; those beyond it are not remembered."""

REQUEST_COST = 512
"""Memory charged for a request, in bytes, in addition to `TABLE_COST` times its size."""

TABLE_COST = 8
"""Memory charged for each encoded byte of a method: a decoded table is about eight times as large."""


OUT_OF_TURN = frozenset(("basic.consume", "basic.cancel", "tx.commit"))
"""Requests that RabbitMQ answers when a queue has: the replies to later requests of other kinds may come before."""


class TimedRequest(NamedTuple):
    """A request and the time at which it was sent.

    `last` is the queue that the channel had declared last by then, itself included; `number` numbers requests that
    begin or end consumers, `place` those of one peer on the channel.
    """

    ts_ns: int
    request: Method
    last: LastQueue = None
    number: int = 0
    cost: int = 0
    place: int = 0


class _TagRequests:
    """The basic.consume with one tag, or with none, the oldest first; `for_replies` of them are for direct replies."""

    __slots__ = ("for_replies", "requests")

    def __init__(self) -> None:
        self.requests: deque[TimedRequest] = deque()
        self.for_replies = 0


class PendingRequests:
    """Unanswered requests of one peer on one channel, by name, the oldest first.

    RabbitMQ answers requests of different kinds out of turn, those of one kind in order, except basic.consume, whose
    replies name the consumer: these are kept by tag, so that a reply costs the same however many are pending.
    After `lose`, a reply may answer a request that was not seen: so no request is remembered, and none is matched.

    After `doubt`, since replies were missed, the requests pending by then are forgotten but counted, as those beyond
    the limits, and so are later ones of these kinds: any reply may be to one of them. That ends when as many replies
    have come, or when a later request of another kind is answered, since the broker works in order.
    """

    __slots__ = ("_beyond", "_beyond_places", "_budget", "_by_name", "_by_tag", "_consumes", "_is_lost", "_sent")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._by_name: dict[str, deque[TimedRequest]] = {}
        self._by_tag: dict[str, _TagRequests] = {}
        self._consumes = 0
        self._beyond: dict[str, int] = {}
        self._beyond_places: dict[str, int] = {}
        """Place of the last request of each kind that is beyond the limits."""
        self._sent = 0
        self._is_lost = False

    @property
    def is_empty(self) -> bool:
        """Whether no request is pending, neither a remembered one nor one beyond the limits."""
        return not (self._by_name or self._by_tag or self._beyond)

    @property
    def remembers_consumes(self) -> bool:
        """Whether each unanswered basic.consume is remembered."""
        return "basic.consume" not in self._beyond

    def add(self, ts_ns: int, request: Method, *, size: int = 0, last: LastQueue = None, number: int = 0) -> None:
        """Remember a request; `size` is the size of its frame."""
        if self._is_lost:
            return
        name = request.name
        self._sent += 1
        is_consume = isinstance(request, BasicConsume)
        count = self._consumes if is_consume else len(self._by_name.get(name, ()))
        cost = REQUEST_COST + TABLE_COST * size
        if count >= MAX_PENDING or name in self._beyond or not self._budget.take(cost):
            self._beyond[name] = self._beyond.get(name, 0) + 1
            self._beyond_places[name] = self._sent
            if is_consume:  # replies to basic.consume may come out of turn
                self._put_consumes_beyond()
            return
        timed = TimedRequest(ts_ns, request, last, number, cost, self._sent)
        if isinstance(request, BasicConsume):
            alike = self._by_tag.get(request.consumer_tag)
            if alike is None:
                alike = self._by_tag[request.consumer_tag] = _TagRequests()
            alike.requests.append(timed)
            alike.for_replies += request.queue == REPLY_TO
            self._consumes += 1
        else:
            self._by_name.setdefault(name, deque()).append(timed)

    def expects(self, reply: Method) -> bool:
        """Whether `reply` may answer one of these requests, or one that is not remembered."""
        name = ANSWERS[reply.name]
        if self._is_lost or name in self._beyond:
            return True
        if not isinstance(reply, BasicConsumeOk):
            return name in self._by_name
        tag = reply.consumer_tag
        return tag in self._by_tag or (tag.startswith("amq.") and "" in self._by_tag)

    def match(self, reply: Method) -> TimedRequest | None:
        """Remove and return the request that `reply` answers; `None` if it is unknown."""
        name = ANSWERS[reply.name]
        found = self._consume(reply.consumer_tag) if isinstance(reply, BasicConsumeOk) else self._oldest(name)
        if found is not None:
            self._budget.give(found.cost)
            if self._beyond and name not in OUT_OF_TURN:
                self._end_doubts(found.place)
        elif name in self._beyond:
            self._beyond[name] -= 1
            if not self._beyond[name]:
                del self._beyond[name]
        return found

    def _end_doubts(self, place: int) -> None:
        """Forget the requests beyond the limits before `place`: the broker has answered a later one."""
        for name in tuple(self._beyond):
            if name not in OUT_OF_TURN and self._beyond_places[name] < place:
                del self._beyond[name]

    def _oldest(self, name: str) -> TimedRequest | None:
        """Remove and return the oldest request of a kind."""
        pending = self._by_name.get(name)
        if pending is None:
            return None
        found = pending.popleft()
        if not pending:
            del self._by_name[name]
        return found

    def _consume(self, tag: str) -> TimedRequest | None:
        """Remove and return the basic.consume answered with this tag, which the client or the broker has chosen."""
        if "basic.consume" in self._beyond:
            self._put_consumes_beyond()  # the reply may be to a request that is not remembered
        key = tag if tag in self._by_tag else ""
        alike = self._by_tag.get(key)
        if alike is None:
            return None
        if 0 < alike.for_replies < len(alike.requests):
            self._put_beyond(key)  # RabbitMQ answers those for direct replies at once: the request is ambiguous
            return None
        found = alike.requests.popleft()
        alike.for_replies = max(0, alike.for_replies - 1)
        self._consumes -= 1
        if not alike.requests:
            del self._by_tag[key]
        return found

    def _put_consumes_beyond(self) -> None:
        for tag in tuple(self._by_tag):
            self._put_beyond(tag)

    def _put_beyond(self, tag: str) -> None:
        """Forget the basic.consume requests with this tag, and count them among those beyond the limits."""
        requests = self._by_tag.pop(tag).requests
        self._budget.give(sum(each.cost for each in requests))
        self._consumes -= len(requests)
        self._beyond["basic.consume"] = self._beyond.get("basic.consume", 0) + len(requests)
        self._beyond_places["basic.consume"] = self._sent

    def of_kind(self, name: str) -> list[Method] | None:
        """Return the requests with this name, the oldest first; `None` if some are not remembered."""
        if name in self._beyond:
            return None
        if name == "basic.consume":
            return [each.request for each in sorted(self._of_tags(), key=lambda each: (each.ts_ns, each.number))]
        return [each.request for each in self._by_name.get(name, ())]

    def in_order(self) -> list[TimedRequest] | None:
        """Return all requests, the oldest first; `None` if some are not remembered."""
        if self._beyond or self._is_lost:
            return None
        found = [*self._of_tags(), *(each for pending in self._by_name.values() for each in pending)]
        return sorted(found, key=lambda each: (each.ts_ns, each.number))

    def _of_tags(self) -> list[TimedRequest]:
        return [each for alike in self._by_tag.values() for each in alike.requests]

    def find(self) -> None:
        """Begin again without requests, none of which is unknown."""
        self.clear()
        self._is_lost = False

    def doubt(self) -> list[TimedRequest]:
        """Count all requests among those beyond the limits, since replies were missed; return each basic.consume."""
        consumes = self._of_tags()
        self._put_consumes_beyond()
        for name, requests in self._by_name.items():
            self._beyond[name] = self._beyond.get(name, 0) + len(requests)
            self._beyond_places[name] = self._sent
            self._budget.give(sum(each.cost for each in requests))
        self._by_name.clear()
        return consumes

    def stop(self) -> None:
        """Remember no later request, since some were missed; the replies to earlier ones come first."""
        self._put_consumes_beyond()  # a reply names a consumer, perhaps one of a request that was missed
        self._is_lost = True

    def lose(self) -> None:
        """Forget all requests, and match no more: requests or replies were missed."""
        self.clear()
        self._is_lost = True

    def clear(self) -> list[TimedRequest]:
        """Remove and return all pending requests, in the order in which they were sent."""
        self._beyond.clear()
        found = self.in_order() or []
        self._by_name.clear()
        self._by_tag.clear()
        self._consumes = 0
        self._budget.give(sum(each.cost for each in found))
        return found
