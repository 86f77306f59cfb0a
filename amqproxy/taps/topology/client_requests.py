"""One client's requests and their answers on its channels: prefetch, consumers, and declarations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from amqproxy.amqp091.frame_reader import EVERY_METHOD
from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.taps.topology.observed_objects import Observation
from amqproxy.taps.topology.observed_topology import DIRECT_REPLY_TO, Key, ObservedTopology, queue_key
from amqproxy.taps.topology.partial_budget import PartialBudget
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.consumers import DeclaredQueue, LastQueue, queue_name
from amqproxy.taps.trace.requests import REQUEST_COST, TABLE_COST, PendingRequests
from amqproxy.taps.trace.snapshot import (
    MAX_DECLARATION_BYTES,
    MAX_DECLARATIONS,
    DeclarationSnapshot,
    known_text,
)

MAX_BYTES = 16 * 1024 * 1024
"""Approximate limit in bytes on the consumers and requests of one client; those beyond it are not remembered."""

CONSUMER_COST = 1024
"""Memory charged for a consumer, in bytes, in addition to `TABLE_COST` times its size."""

EXCLUSIVE_COST = 512
"""Memory charged for the name of an exclusive queue, in bytes."""

DECLARED_COST = 128
"""Memory charged for the key of an object that the client has declared, in bytes."""

LEFT_OUT_BETWEEN = 64
"""Declarations that are left out before a full client is searched again for deleted objects, which takes 40 µs."""

MAX_UNSURE = 64
"""Limit on a channel's `no_wait` requests that a later reply may show to have been carried out."""

_REQUESTS = (
    "exchange.declare",
    "exchange.delete",
    "exchange.bind",
    "exchange.unbind",
    "queue.declare",
    "queue.bind",
    "queue.unbind",
    "queue.delete",
    "basic.consume",
    "basic.cancel",
)
_REPLIES = tuple(f"{name}-ok" for name in _REQUESTS)
_DECLARING = (ExchangeDeclare, ExchangeBind, QueueDeclare, QueueBind)
_CLOSING = ("channel.close", "channel.close-ok")


def _table(*names: str) -> bytes:
    table = bytearray(len(EVERY_METHOD))
    for name in names:
        table[BY_NAME[name].index] = 1
    return bytes(table)


OBSERVED = {
    CLIENT: _table(*_REQUESTS, *_CLOSING, "basic.qos"),
    SERVER: _table(*_REPLIES, *_CLOSING, "basic.cancel"),
}
"""Tables of the methods that `ClientRequests` must be given, by sender."""


class ObservedClient(Protocol):
    """The client whose requests `ClientRequests` observes."""

    def observation(self) -> Observation:
        """Return the virtual host, the actor and the time of an observation made now."""

    def cover(self, sender: Peer, channel: int, method: Method) -> Method | None:
        """Return a method as it may be shown to people; `None` if it must not be."""


class ConsumerView(NamedTuple):
    """A consumer: its basic.consume in the form shown to people, its queue, and its prefetch.

    The prefetch is the channel's at the time of the basic.consume, as in RabbitMQ; 0 is no limit.
    """

    consume: BasicConsume
    last: LastQueue
    queue: str | None
    prefetch: int
    cost: int

    @property
    def shown_queue(self) -> str | None:
        return queue_name(self.consume.queue, self.last)


class _Unsure(NamedTuple):
    """A request with `no_wait`, with its number, its shown form, and the last declared queue."""

    number: int
    request: Method
    shown: Method
    last: LastQueue


class ChannelView:
    """Settings of a channel: the prefetch of later consumers, that of the whole channel, and its consumers by tag."""

    __slots__ = ("consumers", "global_prefetch", "last", "pending", "prefetch", "prefetches", "sent", "unsure")

    def __init__(self) -> None:
        self.prefetch = self.global_prefetch = 0
        self.consumers: dict[str, ConsumerView] = {}
        self.last: LastQueue = None
        self.pending: PendingRequests | None = None
        """Unanswered requests; `None` if there are none, since channels may be many, and idle."""
        self.prefetches: dict[int, int] | None = None
        """Prefetch that applies to each unanswered basic.consume, by its number."""
        self.unsure: list[_Unsure] | None = None
        self.sent = 0


class ClientRequests:
    """Channels on which one client has sent requests, by number.

    It is given the methods that the client's leg has taken, in order; those not in `OBSERVED` may be left out.
    """

    __slots__ = ("_budget", "_channels", "_declared", "_exclusive", "_left_out", "_look_again", "_topology")

    def __init__(self, topology: ObservedTopology, max_bytes: int = MAX_BYTES) -> None:
        self._topology = topology
        self._budget: Budget = PartialBudget(max_bytes, topology.client_budget)
        self._channels: dict[int, ChannelView] = {}
        self._exclusive: dict[str, int | None] = {}
        self._declared: dict[Key, None] = {}
        """Keys of the objects that the client has declared, the oldest first."""
        self._left_out = self._look_again = 0

    def declarations(self, session: int) -> tuple[tuple[DeclarationSnapshot, ...], int]:
        """Return what the client has declared and what exists of it, and how many more there may be.

        `session` is the number of the client's own.
        """
        found, size, left_out = [], 0, self._left_out
        for key in self._declared:
            each = self._topology.declaration(key)
            if each is None:
                continue
            size += len(each.request)
            if size > MAX_DECLARATION_BYTES:
                size -= len(each.request)
                left_out += 1
                continue
            by = each.by
            is_own = by.session == session
            found.append(
                DeclarationSnapshot(
                    method=each.request,
                    ts_ns=int(each.at * 1e9),
                    session=None if is_own else by.session,
                    user=None if is_own else known_text(by.user),
                    address=None if is_own else known_text(by.client),
                )
            )
        return tuple(found), left_out

    @property
    def channels(self) -> Mapping[int, ChannelView]:
        return MappingProxyType(self._channels)

    @property
    def memory_used(self) -> int:
        """Approximate memory of the consumers and requests, in bytes."""
        return self._budget.used

    def take(self, client: ObservedClient, sender: Peer, number: int, method: Method, size: int = 0) -> None:
        """Take a method on a channel; `size` is the size of its frame."""
        if isinstance(method, (ChannelClose, ChannelCloseOk)):
            self._close(client, sender, number, method)
            return
        channel = self._channels.get(number)
        if channel is None:
            channel = self._channels[number] = ChannelView()
        if sender is CLIENT:
            self._request(client, channel, number, method, size)
        elif isinstance(method, BasicCancel):
            self._end_consumer(client.observation(), channel, method.consumer_tag)
        else:
            self._reply(client, channel, number, method)

    def end(self, client: ObservedClient) -> None:
        """End all consumers and exclusive queues, since the connection has ended."""
        for channel in self._channels.values():
            self._end_consumers(client, channel)
            if channel.pending is not None:
                channel.pending.clear()
        self._channels.clear()
        self._end_exclusive(client, list(self._exclusive))
        self._budget.give(DECLARED_COST * len(self._declared))
        self._declared.clear()

    # --- commands of other protocols, which come as their counterparts, and only once the broker has completed them

    def hold(self, size: int) -> int | None:
        """Charge a command that awaits its completion, until `drop`; return its cost in bytes, `None` if too high."""
        cost = REQUEST_COST + TABLE_COST * size
        return cost if self._budget.take(cost) else None

    def drop(self, cost: int) -> None:
        """Release the cost of a held command."""
        self._budget.give(cost)

    def complete(self, client: ObservedClient, number: int, request: Method) -> None:
        """Apply a command that the broker has carried out on the session of a channel."""
        channel = self._channels.get(number)
        if isinstance(request, BasicCancel):
            if channel is not None:
                self._end_consumer(client.observation(), channel, request.consumer_tag)
            return
        shown = client.cover(CLIENT, number, request)
        if shown is None:
            return
        if isinstance(request, BasicConsume):
            if channel is None:
                channel = self._channels[number] = ChannelView()
            self._begin_consumer(client, channel, request.consumer_tag, request, shown, None, 0)
            return
        if isinstance(request, QueueBind):  # only the key identifies it where unbind has no arguments
            request = msgspec.structs.replace(request, arguments=Table())
        self._carry_out(client, request, shown, None, session=number)

    def end_session(self, client: ObservedClient, number: int) -> None:
        """End the consumers of a channel's session, and the exclusive queues that last as long as the session."""
        channel = self._channels.pop(number, None)
        if channel is not None:
            self._end_consumers(client, channel)
        self._end_exclusive(client, [queue for queue, session in self._exclusive.items() if session == number])

    # --- requests

    def _request(self, client: ObservedClient, channel: ChannelView, number: int, method: Method, size: int) -> None:
        channel.sent += 1
        if isinstance(method, BasicQos):
            if method.global_:
                channel.global_prefetch = method.prefetch_count
            else:
                channel.prefetch = method.prefetch_count
            return
        if isinstance(method, QueueDeclare):
            channel.last = method.queue or DeclaredQueue()
        if getattr(method, "no_wait", False):
            self._send(client, channel, number, method, size)
            return
        if isinstance(method, BasicConsume) and channel.prefetch:
            channel.prefetches = channel.prefetches or {}
            channel.prefetches[channel.sent] = channel.prefetch
        if channel.pending is None:
            channel.pending = PendingRequests(self._budget)
        channel.pending.add(0, method, size=size, last=channel.last, number=channel.sent)

    def _send(self, client: ObservedClient, channel: ChannelView, number: int, method: Method, size: int) -> None:
        """Take a request without a reply."""
        if isinstance(method, BasicCancel):
            self._end_consumer(client.observation(), channel, method.consumer_tag)
            return
        shown = client.cover(CLIENT, number, method)
        if shown is None:
            return
        if isinstance(method, BasicConsume):
            self._begin_consumer(client, channel, method.consumer_tag, method, shown, channel.last, channel.prefetch)
            return
        self._carry_out(client, method, shown, channel.last, is_sure=False)
        channel.unsure = channel.unsure or []
        if len(channel.unsure) < MAX_UNSURE:
            channel.unsure.append(_Unsure(channel.sent, method, shown, channel.last))

    # --- replies

    def _reply(self, client: ObservedClient, channel: ChannelView, number: int, reply: Method) -> None:
        if channel.pending is None:
            return
        found = channel.pending.match(reply)
        if channel.pending.is_empty:
            channel.pending = None
        if found is None:
            if isinstance(reply, BasicConsumeOk):
                channel.prefetches = None  # too many consumers are pending to tell which this is
            return
        self._make_sure(client, channel, found.number)
        request = found.request
        prefetch = 0 if channel.prefetches is None else channel.prefetches.pop(found.number, 0)
        channel.prefetches = channel.prefetches or None
        shown = client.cover(CLIENT, number, request)
        if isinstance(reply, BasicCancelOk):
            self._end_consumer(client.observation(), channel, reply.consumer_tag)
        elif shown is None:
            return
        elif isinstance(reply, BasicConsumeOk):
            assert isinstance(request, BasicConsume)
            self._begin_consumer(client, channel, reply.consumer_tag, request, shown, found.last, prefetch)
        else:
            if isinstance(reply, QueueDeclareOk):
                shown = self._named(client, number, found.last, reply, shown)
            if shown is not None:
                self._carry_out(client, request, shown, found.last)

    def _named(
        self, client: ObservedClient, number: int, last: LastQueue, reply: QueueDeclareOk, shown: Method
    ) -> Method | None:
        """Return a queue.declare as it may be shown, with the name that the broker has chosen, if any."""
        if not isinstance(last, DeclaredQueue):
            return shown
        last.name = reply.queue
        shown_reply = client.cover(SERVER, number, reply)
        if not isinstance(shown_reply, QueueDeclareOk):
            return None
        return msgspec.structs.replace(shown, queue=shown_reply.queue)

    def _carry_out(
        self,
        client: ObservedClient,
        request: Method,
        shown: Method,
        last: LastQueue,
        *,
        is_sure: bool = True,
        session: int | None = None,
    ) -> None:
        name = getattr(request, "queue", None)
        queue = None if name is None else queue_name(name, last)
        if isinstance(request, QueueDeclare) and request.exclusive and not request.passive and queue:
            goes_with_owner = session is None or request.auto_delete
            if goes_with_owner:
                self._own(queue, session)
        key = self._topology.carry_out(client.observation(), request, shown, queue, is_sure=is_sure)
        if isinstance(request, _DECLARING):
            if key is not None and key not in self._declared:
                self._remember(key)
        elif key is not None and is_sure:
            self._forget(key)
        if isinstance(request, QueueDelete) and queue and is_sure:
            self._disown(queue)

    def _remember(self, key: Key) -> None:
        """Remember the key of an object that the client has declared."""
        if len(self._declared) >= MAX_DECLARATIONS and self._left_out >= self._look_again:
            self._forget_deleted()
            self._look_again = self._left_out + LEFT_OUT_BETWEEN
        if len(self._declared) < MAX_DECLARATIONS and self._budget.take(DECLARED_COST):
            self._declared[key] = None
        else:
            self._left_out += 1

    def _forget_deleted(self) -> None:
        """Forget the keys of objects that do not exist any more."""
        for key in [each for each in self._declared if each not in self._topology]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        if key in self._declared:
            del self._declared[key]
            self._budget.give(DECLARED_COST)

    def _own(self, queue: str, session: int | None) -> None:
        """Remember an exclusive queue, which ends with the client, or with the session on this channel."""
        if queue not in self._exclusive and self._budget.take(EXCLUSIVE_COST):
            self._exclusive[queue] = session

    def _disown(self, queue: str) -> None:
        """Forget an exclusive queue, which was deleted before its owner ended."""
        if queue in self._exclusive:
            del self._exclusive[queue]
            self._budget.give(EXCLUSIVE_COST)

    def _end_exclusive(self, client: ObservedClient, queues: list[str]) -> None:
        """Delete exclusive queues, whose owner has ended."""
        if queues:
            seen = client.observation()
            for queue in queues:
                self._topology.end_exclusive(seen, queue)
                self._disown(queue)
                self._forget(queue_key(seen, queue))

    def _make_sure(self, client: ObservedClient, channel: ChannelView, number: int) -> None:
        """Apply the `no_wait` requests sent before this number: the broker has answered a later one."""
        while channel.unsure and channel.unsure[0].number < number:
            _, request, shown, last = channel.unsure.pop(0)
            self._carry_out(client, request, shown, last)
        channel.unsure = channel.unsure or None

    # --- consumers

    def _begin_consumer(
        self,
        client: ObservedClient,
        channel: ChannelView,
        tag: str,
        consume: BasicConsume,
        shown: Method,
        last: LastQueue,
        prefetch: int,
    ) -> None:
        seen = client.observation()
        self._end_consumer(seen, channel, tag)
        assert isinstance(shown, BasicConsume)
        cost = CONSUMER_COST + TABLE_COST * len(consume.arguments.octets)
        if not self._budget.take(cost):
            return
        queue = queue_name(consume.queue, last)
        channel.consumers[tag] = ConsumerView(shown, last, queue, prefetch, cost)
        if queue:
            self._topology.begin_consumer(seen, queue, shown.queue or queue)

    def _end_consumer(self, seen: Observation, channel: ChannelView, tag: str) -> None:
        consumer = channel.consumers.pop(tag, None)
        if consumer is None:
            return
        self._budget.give(consumer.cost)
        queue = consumer.queue
        if not queue or queue.startswith(DIRECT_REPLY_TO):
            return
        goes_with_session = self._exclusive.get(queue) is not None
        if not self._topology.end_consumer(seen, queue, may_delete=not goes_with_session):
            self._disown(queue)
            self._forget(queue_key(seen, queue))

    def _end_consumers(self, client: ObservedClient, channel: ChannelView) -> None:
        if channel.consumers:
            seen = client.observation()
            for tag in tuple(channel.consumers):
                self._end_consumer(seen, channel, tag)

    # --- the end of a channel

    def _close(self, client: ObservedClient, sender: Peer, number: int, method: ChannelClose | ChannelCloseOk) -> None:
        """Close a channel for either peer; the broker's close-ok shows that all earlier requests were carried out."""
        channel = self._channels.get(number)
        if channel is None:
            return
        if sender is CLIENT and isinstance(method, ChannelClose):
            return  # requests sent before it are still answered
        if sender is SERVER and isinstance(method, ChannelCloseOk):
            self._make_sure(client, channel, channel.sent + 1)
        self._end_consumers(client, channel)
        if channel.pending is not None:
            channel.pending.clear()
        del self._channels[number]
