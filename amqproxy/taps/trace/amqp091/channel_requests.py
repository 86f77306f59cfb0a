"""Requests and replies of both peers on one channel, and the consumers and queues that they are about."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame, encode_frame
from amqproxy.amqp091.methods import (
    METHODS,
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
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, REPLIES, SERVER, Peer
from amqproxy.taps.trace.amqp091.causes import RecentMethods
from amqproxy.taps.trace.amqp091.frame_order import Missing
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.consumers import Consumers, DeclaredQueue, LastQueue, queue_name
from amqproxy.taps.trace.events import RequestAnswered, RequestSent, RequestUnanswered
from amqproxy.taps.trace.requests import PendingRequests, TimedRequest
from amqproxy.taps.trace.snapshot import ChannelSnapshot, RequestSnapshot

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
        if found is not None and isinstance(found.request, BasicConsume) and self._context.knows_client:
            self.consumers.begin(reply.consumer_tag, found.number, found.request, found.last)
        else:
            self.consumers.begin_unknown(reply.consumer_tag)

    def cancelled(self, reply: BasicCancelOk, found: TimedRequest | None) -> None:
        if found is not None:
            self.consumers.end(reply.consumer_tag, found.number)

    # --- snapshots

    def in_snapshot(self) -> tuple[RequestSnapshot, ...] | None:
        """Return the unanswered requests of both peers; `None` if some are unknown."""
        found = []
        for sender, pending in self._pending.items():
            requests = pending.in_order()
            if requests is None:
                return None
            found += [snapshot_of(sender, each) for each in requests]
        return tuple(found)

    @property
    def last_queue(self) -> str | None:
        """The queue that the channel has declared last, if its name is known."""
        return queue_name("", self._last_queue)

    def restore(self, snapshot: ChannelSnapshot, *, knows_requests: bool) -> list[TimedRequest]:
        """Take the consumers and requests of a snapshot, and return the client's requests."""
        self._last_queue = snapshot.last_queue
        found: list[TimedRequest] = []
        declared: tuple[int, LastQueue] = 0, None
        sent = 0
        if knows_requests:
            for pending in self._pending.values():
                pending.find()
            for each in snapshot.requests:
                method = decoded(snapshot.number, each.method)
                last: LastQueue = each.last_queue
                if method.name not in REPLIES:
                    raise ValueError(f"{method.name} in a snapshot is not a request")
                if isinstance(method, QueueDeclare):
                    last = method.queue or DeclaredQueue()
                    declared = each.ts_ns, last
                elif last is None and each.ts_ns > declared[0]:  # methods of one read may be in another order
                    last = declared[1]
                sender, number = Peer(each.sender), each.number or 0
                self._pending[sender].add(each.ts_ns, method, size=len(each.method) + 8, last=last, number=number)
                sent = max(sent, number)
                if sender is CLIENT:
                    found.append(TimedRequest(each.ts_ns, method))
            if self._last_queue is None:
                self._last_queue = declared[1]
        self.consumers.restore(snapshot.consumers, is_complete=snapshot.knows_consumers, sent=sent)
        return found

    # --- the end, and forgetting

    def end(self, ts_ns: int, *, is_end_seen: bool) -> None:
        """Report the unanswered requests, or only forget them unless it is certain when the channel has ended."""
        context = self._context
        for sender, pending in self._pending.items():
            for each in pending.clear() if is_end_seen else ():
                context.events.append(
                    RequestUnanswered(
                        ts_ns, *context.place, sender=sender, request=each.request, latency_ns=ts_ns - each.ts_ns
                    )
                )

    def lose_broker(self) -> None:
        """Note that replies and requests of the broker were missed."""
        self.doubt()
        self._pending[SERVER].stop()

    def doubt(self, last: Method | None = None) -> None:
        """Note that replies to the client's requests so far were missed; those before `last` are in doubt already."""
        pending = self._pending[CLIENT]
        if not pending.remembers_consumes and (last is None or isinstance(last, BasicConsume)):
            self.consumers.lose()
        for each in pending.doubt():
            consume = each.request
            assert isinstance(consume, BasicConsume)
            self.consumers.may_begin(consume.consumer_tag, each.number, consume, each.last)

    def lose_client(self) -> None:
        """Note that requests and replies of the client were missed: the replies to earlier requests come first."""
        self._last_queue = None
        self._recent.lose()
        self._pending[CLIENT].stop()
        self._pending[SERVER].doubt()

    def forget(self) -> None:
        """Forget all requests and recent methods: the replies that follow cannot be linked."""
        self._last_queue = None
        self._recent.lose()
        for pending in self._pending.values():
            pending.lose()


def snapshot_of(sender: Peer, request: TimedRequest) -> RequestSnapshot:
    """Return a pending request of `sender` for a snapshot."""
    return RequestSnapshot(
        ts_ns=request.ts_ns,
        sender=str(sender),
        method=request.request.encode(),
        number=request.number or None,
        last_queue=queue_name("", request.last),
    )


def decoded(channel: int, payload: bytes) -> Method:
    """Return the method with this payload. Raises `ValueError` if it is malformed."""
    if len(payload) < 4 or int.from_bytes(payload[:4]) not in METHODS:
        raise ValueError(f"{payload[:4].hex()} begins a method in a snapshot: there is no such method")
    try:
        method: Method = Frame(encode_frame(METHOD, channel, payload)).method
    except ProtocolError as error:
        raise ValueError(f"a method in a snapshot is malformed: {error.reply_text}") from error
    return method
