"""Requests that await their replies, on one channel, from one peer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from amqproxy.amqp091.methods import BasicConsumeOk, Method
from amqproxy.amqp091.transitions import ANSWERS

MAX_PENDING = 1024
"""Requests of one kind that one peer has sent on a channel and without an answer; those beyond are not remembered."""

_PendingRequest = tuple[int, Method]


class PendingRequests:
    """Requests with the time of each, by their names, the oldest first.

    RabbitMQ answers out of turn between kinds, never within one but for basic.consume, whose replies name the consumer.
    After `lose`, a reply may be to a request that was not seen: only one that names what the request names is matched.
    """

    __slots__ = ("_beyond", "_by_name", "_is_lost")

    def __init__(self) -> None:
        self._by_name: dict[str, deque[_PendingRequest]] = {}
        self._beyond: dict[str, int] = {}
        self._is_lost = False

    def add(self, ts_ns: int, request: Method) -> None:
        name = request.name
        pending = self._by_name.setdefault(name, deque())
        if len(pending) >= MAX_PENDING or name in self._beyond:
            self._beyond[name] = self._beyond.get(name, 0) + 1
        else:
            pending.append((ts_ns, request))

    def match(self, reply: Method) -> _PendingRequest | None:
        """The request that `reply` answers, with its time; None when it is not known."""
        name = ANSWERS[reply.name]
        pending = self._by_name.get(name)
        if self._is_lost:
            return self._same_name(pending or (), reply)
        if not pending:
            if name in self._beyond:
                self._beyond[name] -= 1
                if not self._beyond[name]:
                    del self._beyond[name]
            return None
        found = pending[0]
        if isinstance(reply, BasicConsumeOk):
            tag = reply.consumer_tag
            found = next((each for each in pending if getattr(each[1], "consumer_tag", "") == tag), found)
        pending.remove(found)
        return found

    def _same_name(self, pending: Iterable[_PendingRequest], reply: Method) -> _PendingRequest | None:
        for field in ("consumer_tag", "queue"):
            value = getattr(reply, field, "")
            for each in pending:
                if value and getattr(each[1], field, "") == value:
                    self._by_name[each[1].name].remove(each)
                    return each
        return None

    def oldest(self, name: str) -> Method | None:
        """The oldest request of that name."""
        pending = self._by_name.get(name)
        return pending[0][1] if pending else None

    def lose(self) -> None:
        """Requests or replies were missed."""
        self.clear()
        self._is_lost = True

    def clear(self) -> list[_PendingRequest]:
        """All that were pending, in the order of their times; none is any more."""
        found = sorted((each for pending in self._by_name.values() for each in pending), key=lambda each: each[0])
        self._by_name.clear()
        self._beyond.clear()
        return found
