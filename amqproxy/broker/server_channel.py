"""One channel as the broker sees it: what its client asks for, and what it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amqproxy.amqp091.errors import (
    AccessRefused,
    NotAllowed,
    NotFound,
    NotImplementedByServer,
    PreconditionFailed,
)
from amqproxy.amqp091.frames import HEADER, METHOD, Frame
from amqproxy.amqp091.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.broker import content_frames
from amqproxy.broker.consumer import UNLIMITED, Consumer
from amqproxy.broker.message import Message
from amqproxy.broker.queue import Entry, Queue

if TYPE_CHECKING:
    from amqproxy.broker.link import Link
    from amqproxy.broker.vhost import VirtualHost


class Delivery:
    """What was handed out under one delivery tag and is not settled yet."""

    __slots__ = ("consumer", "entry", "queue")

    def __init__(self, queue: Queue, entry: Entry, consumer: Consumer | None) -> None:
        self.queue = queue
        self.entry = entry
        self.consumer = consumer


class ServerChannel:
    """One open channel. Answers go to its `Link`; a `ProtocolError` says how it, or the link, is to be closed."""

    def __init__(self, number: int, link: Link, vhost: VirtualHost) -> None:
        self.number = number
        self.link = link
        self.vhost = vhost
        self.consumers: dict[str, Consumer] = {}
        self.unacked: dict[int, Delivery] = {}
        self.last_queue = ""
        self.prefetch = 0
        self.global_prefetch = UNLIMITED
        self.is_confirming = False
        self.is_transactional = False
        self._publishes = 0
        self._confirmed = 0
        self._next_tag = 0
        self._tags = 0
        self._publish: BasicPublish | None = None
        self._header = b""
        self._bodies: list[bytes] = []
        self._remaining = 0
        self._pending_publishes: list[tuple[BasicPublish, Message]] = []
        self._pending_acks: list[tuple[list[tuple[int, Delivery]], str]] = []

    # --- publishing

    def receive_content(self, frame: Frame, now: float) -> None:
        """Take a basic.publish, or a header or body that belongs to one; the reader has checked their order."""
        if frame.kind == METHOD:
            self._publish = frame.method
            return
        if frame.kind == HEADER:
            self._header = frame.payload
            self._remaining = frame.body_size
            self._bodies = []
        else:
            self._bodies.append(frame.payload)
            self._remaining -= frame.size
        if self._remaining:
            return
        publish = self._publish
        assert publish is not None
        body = self._bodies[0] if len(self._bodies) == 1 else b"".join(self._bodies)
        message = Message(publish.exchange, publish.routing_key, self._header, body)
        if self.is_transactional:
            self._pending_publishes.append((publish, message))
        else:
            self._route(publish, message, now)

    def _route(self, publish: BasicPublish, message: Message, now: float) -> None:
        exchange = self.vhost.exchange(publish.exchange)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{self.vhost.name}'")
        if publish.immediate:
            raise NotImplementedByServer("immediate=true")
        self._publishes += 1
        queues = self.vhost.route(exchange, message)
        if not queues and publish.mandatory:
            returned = BasicReturn(312, "NO_ROUTE", publish.exchange, publish.routing_key)
            self.link.say(self.number, returned)
            self.link.write(content_frames.content(self.number, message.header, message.body, self.link.frame_max))
        is_taken = True
        for queue in queues:
            if not queue.publish(message, now):
                is_taken = False
        if self.is_confirming:
            if is_taken:
                self.link.to_confirm(self)
            else:
                self.confirm()
                self._confirmed = self._publishes
                self.link.say(self.number, BasicNack(self._publishes, False, False))

    def confirm(self) -> None:
        """Confirm all that was published and is not confirmed yet."""
        last = self._publishes
        if last > self._confirmed:
            multiple = last - self._confirmed > 1
            self._confirmed = last
            self.link.say(self.number, BasicAck(last, multiple))

    # --- delivering

    def takes(self, consumer: Consumer) -> bool:
        """May the channel be sent one more message?"""
        return self.link.has_room and (consumer.no_ack or len(self.unacked) < self.global_prefetch)

    def deliver(self, consumer: Consumer, entry: Entry) -> None:
        """Send a message to a consumer of this channel."""
        self._next_tag += 1
        tag = self._next_tag
        if not consumer.no_ack:
            self.unacked[tag] = Delivery(consumer.queue, entry, consumer)
            consumer.unacked += 1
            consumer.queue.unacked += 1
        message = entry.message
        self.link.write(
            content_frames.deliver(
                self.number,
                consumer.head,
                tag,
                entry.is_redelivered,
                message.exchange,
                message.routing_key,
                message.header,
                message.body,
                self.link.frame_max,
            )
        )

    def queue_deleted(self, consumer: Consumer) -> None:
        """The queue of a consumer is gone: it is told, if it can take it."""
        del self.consumers[consumer.tag]
        if self.link.takes_cancel:
            self.link.say(self.number, BasicCancel(consumer.tag, True))

    # --- settling

    def settle(self, method: BasicAck | BasicNack | BasicReject, now: float) -> None:
        """Take an ack, nack or reject."""
        tag = method.delivery_tag
        multiple = not isinstance(method, BasicReject) and method.multiple
        outcome = "ack" if isinstance(method, BasicAck) else "requeue" if method.requeue else "reject"
        if multiple:
            if tag and tag not in self.unacked and (tag > self._next_tag or not self._has_older(tag)):
                raise PreconditionFailed(f"unknown delivery tag {tag}")
            tags = [each for each in self.unacked if each <= tag or not tag]
        elif tag not in self.unacked:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        else:
            tags = [tag]
        settled = [(each, self.unacked.pop(each)) for each in tags]
        if self.is_transactional:
            self._pending_acks.append((settled, outcome))
        else:
            self._apply(settled, outcome, now)

    def _has_older(self, tag: int) -> bool:
        return any(each <= tag for each in self.unacked)

    def _apply(self, settled: list[tuple[int, Delivery]], outcome: str, now: float) -> None:
        queues: dict[Queue, list[Entry]] = {}
        for _, delivery in settled:
            queue = delivery.queue
            queue.unacked -= 1
            if delivery.consumer is not None:
                delivery.consumer.unacked -= 1
            entries = queues.setdefault(queue, [])
            if outcome == "requeue":
                entries.append(delivery.entry)
            elif outcome == "reject":
                queue.reject(delivery.entry, now)
        for queue, entries in queues.items():
            if entries and not queue.is_deleted:
                queue.requeue(entries, now)
            else:
                queue.pump(now)

    def pump(self, now: float) -> None:
        """Let the queues of this channel's consumers send what waits for it."""
        for queue in {consumer.queue for consumer in self.consumers.values()}:
            queue.pump(now)

    def close(self, now: float) -> None:
        """The channel is gone: its consumers end, and what it holds goes back."""
        consumers, self.consumers = self.consumers, {}
        for consumer in consumers.values():
            consumer.queue.unsubscribe(consumer, now)
        for settled, _ in self._pending_acks:
            self.unacked.update(settled)
        unacked, self.unacked = self.unacked, {}
        self._apply(sorted(unacked.items()), "requeue", now)

    # --- everything else a client asks for

    def handle(self, method: Method, now: float) -> None:
        """Take any other method."""
        _HANDLERS[type(method)](self, method, now)

    def _reply(self, method: Any, reply: Method) -> None:
        if not getattr(method, "no_wait", False):
            self.link.say(self.number, reply)

    def _queue_name(self, name: str) -> str:
        """A queue's name, which may be left out for the last one declared. Section 1.7.2.1."""
        if name:
            return name
        if not self.last_queue:
            raise NotFound("no previously declared queue")
        return self.last_queue

    def _queue(self, name: str) -> Queue:
        return self.vhost.queue(self._queue_name(name), self.link)

    def _access_request(self, method: AccessRequest, now: float) -> None:
        self._reply(method, AccessRequestOk(1))

    def _channel_flow(self, method: ChannelFlow, now: float) -> None:
        if not method.active:
            raise NotImplementedByServer("active=false")
        self._reply(method, ChannelFlowOk(True))

    def _exchange_declare(self, method: ExchangeDeclare, now: float) -> None:
        if method.passive:
            self.vhost.exchange(method.exchange)
        else:
            self.vhost.declare_exchange(
                method.exchange,
                method.type,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                arguments=method.arguments,
            )
        self._reply(method, ExchangeDeclareOk())

    def _exchange_delete(self, method: ExchangeDelete, now: float) -> None:
        self.vhost.delete_exchange(method.exchange, if_unused=method.if_unused)
        self._reply(method, ExchangeDeleteOk())

    def _exchange_bind(self, method: ExchangeBind, now: float) -> None:
        source, destination = self.vhost.exchange(method.source), self.vhost.exchange(method.destination)
        self.vhost.bind(source, destination, method.routing_key, method.arguments)
        self._reply(method, ExchangeBindOk())

    def _exchange_unbind(self, method: ExchangeUnbind, now: float) -> None:
        source, destination = self.vhost.exchange(method.source), self.vhost.exchange(method.destination)
        self.vhost.unbind(source, destination, method.routing_key, method.arguments)
        self._reply(method, ExchangeUnbindOk())

    def _queue_declare(self, method: QueueDeclare, now: float) -> None:
        if method.passive:
            queue = self._queue(method.queue)
        else:
            queue = self.vhost.declare_queue(
                method.queue,
                self.link,
                durable=method.durable,
                exclusive=method.exclusive,
                auto_delete=method.auto_delete,
                arguments=method.arguments,
                now=now,
            )
        self.last_queue = queue.name
        self._reply(method, QueueDeclareOk(queue.name, queue.message_count, len(queue.consumers)))

    def _queue_bind(self, method: QueueBind, now: float) -> None:
        queue = self._queue(method.queue)
        routing_key = method.routing_key
        if not method.queue and not routing_key:
            routing_key = queue.name
        self.vhost.bind(self.vhost.exchange(method.exchange), queue, routing_key, method.arguments)
        self._reply(method, QueueBindOk())

    def _queue_unbind(self, method: QueueUnbind, now: float) -> None:
        queue = self._queue(method.queue)
        self.vhost.unbind(self.vhost.exchange(method.exchange), queue, method.routing_key, method.arguments)
        self._reply(method, QueueUnbindOk())

    def _queue_purge(self, method: QueuePurge, now: float) -> None:
        self._reply(method, QueuePurgeOk(self._queue(method.queue).purge()))

    def _queue_delete(self, method: QueueDelete, now: float) -> None:
        count = self.vhost.delete_queue(
            self._queue_name(method.queue), self.link, if_unused=method.if_unused, if_empty=method.if_empty
        )
        self._reply(method, QueueDeleteOk(count))

    def _basic_qos(self, method: BasicQos, now: float) -> None:
        if method.prefetch_size:
            raise NotImplementedByServer(f"prefetch_size!=0 ({method.prefetch_size})")
        if method.global_:
            self.global_prefetch = method.prefetch_count or UNLIMITED
        else:
            self.prefetch = method.prefetch_count
        self._reply(method, BasicQosOk())
        self.pump(now)

    def _basic_consume(self, method: BasicConsume, now: float) -> None:
        queue = self._queue(method.queue)
        tag = method.consumer_tag
        if not tag:
            self._tags += 1
            tag = f"amq.ctag-{self.link.token}-{self.number}-{self._tags}"
        elif tag in self.consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        if (method.exclusive and queue.consumers) or any(each.exclusive for each in queue.consumers):
            raise AccessRefused(f"queue '{queue.name}' in vhost '{self.vhost.name}' in exclusive use")
        consumer = Consumer(
            tag,
            queue,
            self,
            no_ack=method.no_ack,
            exclusive=method.exclusive,
            prefetch=self.prefetch,
            arguments=method.arguments,
        )
        consumer.head = content_frames.short_string(tag)
        self.consumers[tag] = consumer
        queue.subscribe(consumer, now)
        self._reply(method, BasicConsumeOk(tag))
        queue.pump(now)

    def _basic_cancel(self, method: BasicCancel, now: float) -> None:
        consumer = self.consumers.pop(method.consumer_tag, None)
        self._reply(method, BasicCancelOk(method.consumer_tag))
        if consumer is not None:
            consumer.queue.unsubscribe(consumer, now)

    def _basic_cancel_ok(self, method: BasicCancelOk, now: float) -> None:
        """A client's answer to a notice that needed none."""

    def _basic_get(self, method: BasicGet, now: float) -> None:
        queue = self._queue(method.queue)
        entry = queue.get(now)
        if entry is None:
            self._reply(method, BasicGetEmpty())
            return
        self._next_tag += 1
        if not method.no_ack:
            self.unacked[self._next_tag] = Delivery(queue, entry, None)
            queue.unacked += 1
        message = entry.message
        got = BasicGetOk(
            self._next_tag, entry.is_redelivered, message.exchange, message.routing_key, queue.message_count
        )
        self.link.say(self.number, got)
        self.link.write(content_frames.content(self.number, message.header, message.body, self.link.frame_max))

    def _basic_recover(self, method: BasicRecover | BasicRecoverAsync, now: float) -> None:
        if not method.requeue:
            raise NotImplementedByServer("requeue=false")
        unacked, self.unacked = self.unacked, {}
        if isinstance(method, BasicRecover):
            self._reply(method, BasicRecoverOk())
        self._apply(sorted(unacked.items()), "requeue", now)

    def _confirm_select(self, method: ConfirmSelect, now: float) -> None:
        if self.is_transactional:
            raise PreconditionFailed("cannot switch from tx to confirm mode")
        if not self.is_confirming:
            self.is_confirming = True
            self._publishes = self._confirmed = 0
        self._reply(method, ConfirmSelectOk())

    def _tx_select(self, method: TxSelect, now: float) -> None:
        if self.is_confirming:
            raise PreconditionFailed("cannot switch from confirm to tx mode")
        self.is_transactional = True
        self._reply(method, TxSelectOk())

    def _tx_commit(self, method: TxCommit, now: float) -> None:
        self._check_transactional()
        publishes, self._pending_publishes = self._pending_publishes, []
        acks, self._pending_acks = self._pending_acks, []
        for publish, message in publishes:
            self._route(publish, message, now)
        for settled, outcome in acks:
            self._apply(settled, outcome, now)
        self._reply(method, TxCommitOk())

    def _tx_rollback(self, method: TxRollback, now: float) -> None:
        self._check_transactional()
        self._pending_publishes = []
        acks, self._pending_acks = self._pending_acks, []
        for settled, _ in acks:
            self.unacked.update(settled)
        self.unacked = dict(sorted(self.unacked.items()))
        self._reply(method, TxRollbackOk())

    def _check_transactional(self) -> None:
        if not self.is_transactional:
            raise PreconditionFailed("channel is not transactional")


_HANDLERS: dict[type[Method], Callable[[ServerChannel, Any, float], None]] = {
    AccessRequest: ServerChannel._access_request,
    BasicAck: ServerChannel.settle,
    BasicCancel: ServerChannel._basic_cancel,
    BasicCancelOk: ServerChannel._basic_cancel_ok,
    BasicConsume: ServerChannel._basic_consume,
    BasicGet: ServerChannel._basic_get,
    BasicNack: ServerChannel.settle,
    BasicQos: ServerChannel._basic_qos,
    BasicRecover: ServerChannel._basic_recover,
    BasicRecoverAsync: ServerChannel._basic_recover,
    BasicReject: ServerChannel.settle,
    ChannelFlow: ServerChannel._channel_flow,
    ConfirmSelect: ServerChannel._confirm_select,
    ExchangeBind: ServerChannel._exchange_bind,
    ExchangeDeclare: ServerChannel._exchange_declare,
    ExchangeDelete: ServerChannel._exchange_delete,
    ExchangeUnbind: ServerChannel._exchange_unbind,
    QueueBind: ServerChannel._queue_bind,
    QueueDeclare: ServerChannel._queue_declare,
    QueueDelete: ServerChannel._queue_delete,
    QueuePurge: ServerChannel._queue_purge,
    QueueUnbind: ServerChannel._queue_unbind,
    TxCommit: ServerChannel._tx_commit,
    TxRollback: ServerChannel._tx_rollback,
    TxSelect: ServerChannel._tx_select,
}
