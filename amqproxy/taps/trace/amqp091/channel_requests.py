"""Requests and replies of both peers on one channel, and the consumers and queues that they are about."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    ChannelClose,
    ConnectionClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp091.causes import RecentMethods
from amqproxy.taps.trace.amqp091.frame_order import Missing
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.consumers import Consumers, DeclaredQueue, LastQueue
from amqproxy.taps.trace.events import RequestAnswered, RequestSent, RequestUnanswered
from amqproxy.taps.trace.requests import PendingRequests, TimedRequest

_CONSUME = Missing(frozenset(("basic.consume",)))


class RequestTrace:
    """Requests linked to their replies, and the client's recent methods that the broker may refuse.

    `consumers` are the consumers that the client has asked for.
    """

    __slots__ = ("_context", "_last_queue", "_pending", "_recent", "consumers")

    def __init__(self, context: ChannelContext[Any]) -> None:
        memory = context.budgets.memory
        self.consumers = Consumers(memory)
        self._context = context
        self._last_queue: LastQueue = None
        self._pending = {CLIENT: PendingRequests(memory), SERVER: PendingRequests(memory)}
        self._recent = RecentMethods(memory)

    def note(self, method: Method, size: int) -> None:
        """Remember a method of the client that the broker will read."""
        self._recent.add(method, size)

    def refuse(self, method: Method) -> None:
        """Note that the broker has to refuse this method of the client."""
        self._recent.refuse(method)

    def causes(self, close: ChannelClose | ConnectionClose) -> list[Method] | None:
        """Return the client's methods that a close may be about; `None` if there may be others that were forgotten."""
        return self._recent.causes(close, self._pending[CLIENT])

    def missing_for_reply(self, sender: Peer, reply: Method) -> Missing | None:
        """Return the request that `reply` of `sender` waits for; `None` if it was seen."""
        return None if self._pending[sender.other].expects(reply) else Missing(frozenset((ANSWERS[reply.name],)))

    def missing_for_delivery(self, consumer_tag: str) -> Missing | None:
        """Return the basic.consume that a delivery with this consumer tag waits for; `None` if it was seen."""
        return None if self.consumers.may_have(consumer_tag) else _CONSUME

    def has_cause(self, close: ChannelClose | ConnectionClose) -> bool:
        """Whether a method of the client was seen that a close may be about."""
        return self._recent.has_cause(close, self._pending[CLIENT])

    def request(self, sender: Peer, request: Method, size: int, ts_ns: int) -> None:
        """Remember a request of `sender`, or report it if it has `no_wait`, since no reply follows."""
        number = 0
        if sender is CLIENT:
            if isinstance(request, QueueDeclare):
                self._last_queue = request.queue or DeclaredQueue()
            elif isinstance(request, (BasicConsume, BasicCancel)):
                number = self.consumers.number()
        if getattr(request, "no_wait", False):
            context = self._context
            context.events.append(RequestSent(ts_ns, *context.place, sender=sender, request=request))
            if isinstance(request, BasicConsume):
                self.consumers.may_begin(request.consumer_tag, number, request, self._last_queue)
            elif isinstance(request, BasicCancel):
                self.consumers.may_end(request.consumer_tag, number)
            return
        self._pending[sender].add(ts_ns, request, size=size, last=self._last_queue, number=number)

    def answer(self, sender: Peer, reply: Method, ts_ns: int) -> TimedRequest | None:
        """Report a reply of `sender` with its request, and return the request; `None` if it is unknown."""
        context = self._context
        found = self._pending[sender.other].match(reply)
        if found is not None and sender is SERVER:
            self._recent.carried_out(found.request)
        context.events.append(
            RequestAnswered(
                ts_ns,
                context.number,
                context.epoch,
                sender=sender.other,
                request=None if found is None else found.request,
                reply=reply,
                latency_ns=None if found is None else ts_ns - found.ts_ns,
            )
        )
        return found

    # --- what replies say of consumers and queues

    def declared(self, reply: QueueDeclareOk, found: TimedRequest | None) -> None:
        if found is not None and isinstance(found.last, DeclaredQueue):
            found.last.name = reply.queue

    def consuming(self, reply: BasicConsumeOk, found: TimedRequest | None) -> None:
        if found is not None and isinstance(found.request, BasicConsume):
            self.consumers.begin(reply.consumer_tag, found.number, found.request, found.last)
        else:
            self.consumers.begin_unknown(reply.consumer_tag)

    def cancelled(self, reply: BasicCancelOk, found: TimedRequest | None) -> None:
        if found is not None:
            self.consumers.end(reply.consumer_tag, found.number)

    # --- the end, and forgetting

    def end(self, ts_ns: int) -> None:
        """Report the unanswered requests."""
        context = self._context
        for sender, pending in self._pending.items():
            for each in pending.clear():
                context.events.append(
                    RequestUnanswered(
                        ts_ns, *context.place, sender=sender, request=each.request, latency_ns=ts_ns - each.ts_ns
                    )
                )

    def forget(self) -> None:
        """Forget all requests and recent methods: the replies that follow cannot be linked."""
        self._last_queue = None
        self._recent.lose()
        for pending in self._pending.values():
            pending.lose()
