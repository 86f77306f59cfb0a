"""One channel as the broker sees it: what its client asks for, and what it is answered."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

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
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker import content_frames, direct_reply_to, firehose, permissions, publishing
from amqproxy.broker.consumer import UNLIMITED, Consumer
from amqproxy.broker.journal import Pledge
from amqproxy.broker.message import Message
from amqproxy.broker.permissions import CONFIGURE, READ, WRITE
from amqproxy.broker.queue import Queue
from amqproxy.broker.queue_arguments import check_consume
from amqproxy.broker.unacked import Unacked

if TYPE_CHECKING:
    from amqproxy.broker.backlog import Entry
    from amqproxy.broker.link import Link
    from amqproxy.broker.vhost import VirtualHost


ACK, REQUEUE, REJECT = "ack", "requeue", "reject"
"""What becomes of messages that a client settles."""


class ServerChannel:
    """One open channel. Answers go to its `Link`; a `ProtocolError` says how it, or the link, is to be closed.

    `held` counts what its consumers have and have not settled, which `global_prefetch` bounds.
    """

    def __init__(self, number: int, link: Link, vhost: VirtualHost) -> None:
        self.number = number
        self.link = link
        self.vhost = vhost
        self.user = link.user
        self.consumers: dict[str, Consumer] = {}
        self.unacked = Unacked()
        self.held = 0
        self.last_queue = ""
        self.prefetch = 0
        self.global_prefetch = UNLIMITED
        self.is_confirming = False
        self.is_transactional = False
        self._journal = vhost.keeper.journal if vhost.keeper is not None else None
        self._pledge = Pledge()
        self._pledges: deque[Pledge] = deque()
        self._publishes = 0
        self._confirmed = 0
        self._next_tag = 0
        self._publish: BasicPublish | None = None
        self._header: Frame | None = None
        self._bodies: list[bytes] = []
        self._remaining = 0
        self._is_too_large = False
        self._reply_name = ""
        self._reply_tag: str | None = None
        self._trace_place: Table | None = None
        self._pending_publishes: list[tuple[BasicPublish, Message, tuple[Queue, ...]]] = []
        self._pending_acks: list[tuple[list[Entry], str]] = []

    # --- publishing

    def receive_content(self, frame: Frame, now: float) -> None:
        """Take a basic.publish, or a header or body that belongs to one; the reader has checked their order."""
        if frame.kind == METHOD:
            self._publish = frame.method
            return
        if frame.kind == HEADER:
            self._header = frame
            self._remaining = frame.body_size
            self._is_too_large = self._remaining > self.link.broker.max_message_size
            self._bodies = []
        else:
            if not self._is_too_large:
                self._bodies.append(frame.payload)
            self._remaining -= frame.size
        if self._remaining:
            return
        publish, header = self._publish, self._header
        assert publish is not None
        assert header is not None
        bodies, self._bodies = self._bodies, []
        self._accept(publish, header, bodies[0] if len(bodies) == 1 else b"".join(bodies), now)

    def _accept(self, publish: BasicPublish, header: Frame, body: bytes, now: float) -> None:
        """Check a publish and find its way; what is refused is not routed, and the order of checks is RabbitMQ's."""
        vhost, user = self.vhost, self.user
        if publish.immediate:
            raise NotImplementedByServer("immediate=true")
        if self._is_too_large:
            limit = self.link.broker.max_message_size
            raise PreconditionFailed(f"message size {header.body_size} is larger than configured max size {limit}")
        if not user.may(vhost.name, WRITE, publish.exchange or "amq.default"):
            permissions.check(user, vhost.name, WRITE, "exchange", publish.exchange)
        exchange = vhost.exchange(publish.exchange)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'")
        if user.topic_permissions:
            permissions.check_topic(user, vhost.name, WRITE, exchange, publish.routing_key)
        properties = publishing.properties_of(header)
        message = Message(publish.exchange, publish.routing_key, header.payload, body, properties)
        if message.has_properties:
            message = self._with_properties_checked(message, properties)
        held = vhost.held.so_far
        noted = self._journal.rows if self._journal is not None else 0
        queues = vhost.route(exchange, message, now)
        if vhost.held.so_far != held:
            if self._journal is not None and self._journal.rows != noted:
                self._pledge.left += 1  # until it is on the disk
            if publish.mandatory:
                publish = msgspec.structs.replace(publish, mandatory=False)  # nobody can know yet
        if not exchange.name and (message.more_keys or message.routing_key.startswith("amq.")):
            self._answer(message)
        if vhost.is_traced:
            # The default exchange finds each name, whether a queue has it or not.
            names = [queue.name for queue in queues] if exchange.name else [message.routing_key, *message.more_keys]
            self._trace(firehose.traced_publish(message, self._place(), names), now)
        if vhost.events.observers:
            vhost.events.report("message.published", vhost.name, message, exchange=exchange, queues=queues)
        if self.is_transactional:
            self._pending_publishes.append((publish, message, queues))
        else:
            self._enqueue(publish, message, queues, now)

    def _with_properties_checked(self, message: Message, properties: Properties) -> Message:
        publishing.check(properties, self.user)
        if properties.reply_to == direct_reply_to.NAME:
            if self._reply_tag is None:
                raise PreconditionFailed("fast reply consumer does not exist")
            properties = direct_reply_to.addressed(properties, self._reply_name)
        headers = properties.headers
        keys: tuple[str, ...] = ()
        if headers is not None and b"CC" in headers.octets:
            keys = publishing.more_keys(headers)
            if "BCC" in headers:
                properties = publishing.without_bcc(properties)
        if properties is message.properties:
            message.more_keys = keys
            return message
        return Message.made(message.exchange, message.routing_key, properties, message.body, keys)

    def _enqueue(self, publish: BasicPublish, message: Message, queues: tuple[Queue, ...], now: float) -> None:
        """Give a message to its queues; return it, and confirm it, where that was asked for."""
        self._publishes += 1
        if not queues and publish.mandatory:
            returned = BasicReturn(312, "NO_ROUTE", publish.exchange, publish.routing_key)
            self.link.say(self.number, returned)
            self.link.write(content_frames.content(self.number, message.header, message.body, self.link.frame_max))
            if self.vhost.events.observers:
                self.vhost.events.report("message.returned", self.vhost.name, message, channel=self)
        is_taken = True
        journal = self._journal
        if journal is not None and self.is_confirming:
            journal.pledge = self._pledge
        for queue in queues:
            if not queue.publish(message, now):
                is_taken = False
        if journal is not None:
            journal.pledge = None
        message.forget_properties()
        if self.is_confirming:
            if is_taken:
                self.link.to_confirm(self)
            else:
                if not (self._pledge.left or self._pledges):
                    self._confirm_to(self._publishes - 1)
                    self._confirmed = self._publishes
                self.link.say(self.number, BasicNack(self._publishes, False, False))

    def _answer(self, message: Message) -> None:
        """Hand a message to the channels that asked, where its keys name such."""
        for key in {message.routing_key, *message.more_keys}:
            asking = self.vhost.reply_consumers.get(key)
            if asking is not None:
                asking.deliver_reply(key, message)

    def deliver_reply(self, name: str, message: Message) -> None:
        """Send an answer to the client of this channel, which asked by direct reply-to."""
        assert self._reply_tag is not None
        tag = content_frames.short_string(self._reply_tag)
        head = (self.number, tag, self._next_tag + 1, False, message.exchange, name)
        self.link.write(content_frames.deliver(*head, message.header, message.body, self.link.frame_max))

    # --- the firehose

    def _place(self) -> Table:
        """Where this channel's traces come from."""
        if self._trace_place is None:
            link = self.link
            self._trace_place = firehose.place(
                link.broker.node, self.vhost.name, link.name, self.number, self.user.name
            )
        return self._trace_place

    def _trace(self, trace: Message, now: float) -> None:
        self.vhost.publish(self.vhost.exchanges[firehose.EXCHANGE], trace, now)

    def _trace_delivery(self, queue: Queue, entry: Entry, now: float) -> None:
        """Say that a message goes out; of the firehose's own nothing is said."""
        if entry.message.exchange != firehose.EXCHANGE:
            trace = firehose.traced_delivery(entry.message, self._place(), queue.name, entry.is_redelivered)
            self._trace(trace, now)

    def confirm(self) -> None:
        """Confirm all that was published and is not confirmed yet, as soon as what is to be kept is safe."""
        pledge = self._pledge
        if self._journal is not None and (pledge.left or self._pledges):
            pledge.last = self._publishes
            self._pledge = Pledge()
            self._pledges.append(pledge)
            self._journal.when_safe(pledge, self._confirm_safe)
        else:
            self._confirm_to(self._publishes)

    def _confirm_safe(self) -> None:
        """Confirm what is safe, up to the first that is not."""
        last = 0
        while self._pledges and not self._pledges[0].left:
            last = self._pledges.popleft().last
        if self._is_open:
            self._confirm_to(last)

    @property
    def _is_open(self) -> bool:
        return self.link.channels.get(self.number) is self and not self.link.is_over

    def _confirm_to(self, last: int) -> None:
        if last > self._confirmed:
            multiple = last - self._confirmed > 1
            self._confirmed = last
            self.link.say(self.number, BasicAck(last, multiple))

    # --- delivering

    def takes(self, consumer: Consumer) -> bool:
        """May the channel be sent one more message?"""
        return self.link.has_room and self.held < self.global_prefetch

    def deliver(self, consumer: Consumer, entry: Entry, now: float) -> None:
        """Send a message to a consumer of this channel."""
        self._next_tag += 1
        tag = self._next_tag
        if not consumer.no_ack:
            self.unacked.add(tag, entry)
        message = entry.message
        self.link.write(
            content_frames.deliver(
                self.number,
                consumer.head,
                tag,
                entry.is_redelivered,
                message.exchange,
                message.routing_key,
                entry.header,
                message.body,
                self.link.frame_max,
            )
        )
        vhost = self.vhost
        if vhost.is_traced:
            self._trace_delivery(entry.queue, entry, now)
        if vhost.events.observers:
            vhost.events.report("message.delivered", vhost.name, message, queue=entry.queue, channel=self, tag=tag)

    def queue_deleted(self, consumer: Consumer) -> None:
        """The queue of a consumer is gone: it is told, if it can take it."""
        self.consumers.pop(consumer.tag, None)
        if self.vhost.events.observers:
            self.vhost.events.report("consumer.deleted", self.vhost.name, consumer)
        if self.link.takes_cancel:
            self.link.say(self.number, BasicCancel(consumer.tag, True))

    # --- settling

    def settle(self, method: BasicAck | BasicNack | BasicReject, now: float) -> None:
        """Take an ack, nack or reject."""
        multiple = not isinstance(method, BasicReject) and method.multiple
        outcome = ACK if isinstance(method, BasicAck) else REQUEUE if method.requeue else REJECT
        entries = self.unacked.take(method.delivery_tag, multiple)
        if self.is_transactional:
            self._pending_acks.append((entries, outcome))
        else:
            self._apply(entries, outcome, now)

    def _apply(self, entries: list[Entry], outcome: str, now: float) -> None:
        if self.vhost.events.observers:
            for entry in entries:
                details = {"queue": entry.queue, "channel": self, "outcome": outcome}
                self.vhost.events.report("message.settled", self.vhost.name, entry.message, **details)
        for queue, mine in by_queue(entries):
            if outcome == ACK:
                queue.ack(mine, now)
            elif outcome == REQUEUE:
                queue.requeue(mine, now)
            else:
                queue.reject(mine, now)
        if self.global_prefetch != UNLIMITED:
            self.pump(now)

    def pump(self, now: float) -> None:
        """Let the consumers of this channel be sent what waits for them."""
        for consumer in list(self.consumers.values()):
            if consumer.is_blocked:
                consumer.queue.wake(consumer, now)

    def close(self, now: float) -> None:
        """The channel is gone: what it holds goes back, before anybody gets what came later, and its consumers end."""
        self._end_replies()
        self.global_prefetch = 0  # its own consumers get nothing more
        for entries, _ in self._pending_acks:
            self.unacked.put_back(entries)
        for queue, mine in by_queue(self.unacked.take_all()):
            queue.give_back(mine, now)
        consumers, self.consumers = self.consumers, {}
        for consumer in consumers.values():
            self._end(consumer, now)

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
            return stripped(name)
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

    def _check(self, operation: str, kind: str, name: str) -> None:
        permissions.check(self.user, self.vhost.name, operation, kind, name)

    def _exchange_declare(self, method: ExchangeDeclare, now: float) -> None:
        name = stripped(method.exchange)
        if method.passive:
            check_not_default(name)
            self.vhost.exchange(name)
        else:
            self.vhost.check_exchange_type(method.type)
            check_not_default(name)
            self._check(CONFIGURE, "exchange", name)
            alternate = method.arguments.get("alternate-exchange")
            if isinstance(alternate, str) and name not in self.vhost.exchanges:
                self._check(READ, "exchange", name)
                self._check(WRITE, "exchange", alternate)
            self.vhost.declare_exchange(
                name,
                method.type,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                arguments=method.arguments,
            )
        self._reply(method, ExchangeDeclareOk())

    def _exchange_delete(self, method: ExchangeDelete, now: float) -> None:
        name = stripped(method.exchange)
        check_not_default(name)
        if name.startswith("amq."):
            raise AccessRefused(f"deletion of system exchange '{name}' in vhost '{self.vhost.name}' not allowed")
        self._check(CONFIGURE, "exchange", name)
        self.vhost.delete_exchange(name, if_unused=method.if_unused)
        self._reply(method, ExchangeDeleteOk())

    def _check_binding(self, kind: str, destination: str, source: str, routing_key: str) -> None:
        """May the user bind, or unbind, these two?"""
        self._check(WRITE, kind, destination)
        check_not_default(source)
        if kind == "exchange":
            check_not_default(destination)
        self._check(READ, "exchange", source)
        exchange = self.vhost.exchanges.get(source)
        if exchange is not None:
            permissions.check_topic(self.user, self.vhost.name, READ, exchange, routing_key)

    def _exchange_bind(self, method: ExchangeBind, now: float) -> None:
        source, destination = stripped(method.source), stripped(method.destination)
        self._check_binding("exchange", destination, source, method.routing_key)
        first = self.vhost.exchange(source)
        self.vhost.bind(first, self.vhost.exchange(destination), method.routing_key, method.arguments)
        self._reply(method, ExchangeBindOk())

    def _exchange_unbind(self, method: ExchangeUnbind, now: float) -> None:
        source, destination = stripped(method.source), stripped(method.destination)
        self._check_binding("exchange", destination, source, method.routing_key)
        exchanges = self.vhost.exchanges
        if source in exchanges and destination in exchanges:
            self.vhost.unbind(exchanges[source], exchanges[destination], method.routing_key, method.arguments)
        self._reply(method, ExchangeUnbindOk())

    def _queue_declare(self, method: QueueDeclare, now: float) -> None:
        name = stripped(method.queue)
        if direct_reply_to.is_reply_name(name):
            if name != direct_reply_to.NAME and name not in self.vhost.reply_consumers:
                raise NotFound(f"no queue '{name}' in vhost '{self.vhost.name}'")
            self.last_queue = name
            self._reply(method, QueueDeclareOk(name, 0, 1))
            return
        if method.passive:
            queue = self.vhost.queue(name, self.link)
            queue.touch(now)
        else:
            self.vhost.check_queue_name(name)
            name = name or self.vhost.new_queue_name()
            self._check(CONFIGURE, "queue", name)
            if name not in self.vhost.queues:
                self.vhost.check_queue_limit(name)
                dead_letters_to = method.arguments.get("x-dead-letter-exchange")
                if isinstance(dead_letters_to, str):
                    self._check(READ, "queue", name)
                    self._check(WRITE, "exchange", dead_letters_to)
            queue = self.vhost.declare_queue(
                name,
                self.link,
                durable=method.durable,
                exclusive=method.exclusive,
                auto_delete=method.auto_delete,
                arguments=method.arguments,
                now=now,
            )
        if queue.exclusive_to is self.link:
            self.link.exclusive_queues[queue] = None
        self.last_queue = queue.name
        self._reply(method, QueueDeclareOk(queue.name, queue.message_count, queue.consumer_count))

    def _queue_bind(self, method: QueueBind, now: float) -> None:
        name, source = self._queue_name(method.queue), stripped(method.exchange)
        routing_key = method.routing_key if method.queue or method.routing_key else name
        self._check_binding("queue", name, source, routing_key)
        exchange = self.vhost.exchange(source)
        self.vhost.bind(exchange, self.vhost.queue(name, self.link), routing_key, method.arguments)
        self._reply(method, QueueBindOk())

    def _queue_unbind(self, method: QueueUnbind, now: float) -> None:
        name, source = self._queue_name(method.queue), stripped(method.exchange)
        routing_key = method.routing_key if method.queue or method.routing_key else name
        self._check_binding("queue", name, source, routing_key)
        if source in self.vhost.exchanges and name in self.vhost.queues:
            queue = self.vhost.queue(name, self.link)
            self.vhost.unbind(self.vhost.exchanges[source], queue, routing_key, method.arguments)
        self._reply(method, QueueUnbindOk())

    def _queue_purge(self, method: QueuePurge, now: float) -> None:
        self._check(READ, "queue", self._queue_name(method.queue))
        self._reply(method, QueuePurgeOk(self._queue(method.queue).purge()))

    def _queue_delete(self, method: QueueDelete, now: float) -> None:
        name = self._queue_name(method.queue)
        if direct_reply_to.is_reply_name(name):
            self._reply(method, QueueDeleteOk(0))
            return
        self._check(CONFIGURE, "queue", name)
        count = self.vhost.delete_queue(name, self.link, if_unused=method.if_unused, if_empty=method.if_empty)
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
        tag = method.consumer_tag
        if method.queue == direct_reply_to.NAME:
            self._consume_replies(method)
            return
        self._check(READ, "queue", self._queue_name(method.queue))
        if tag and (tag in self.consumers or tag == self._reply_tag):
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        queue = self._queue(method.queue)
        tag = tag or self._new_tag()
        check_consume(str(queue), queue.type, method.arguments)
        queue.check_consumer(
            exclusive=method.exclusive,
            no_ack=method.no_ack,
            prefetch=self.prefetch,
            is_limited=self.global_prefetch != UNLIMITED,
        )
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
        if self.vhost.events.observers:
            self.vhost.events.report("consumer.created", self.vhost.name, consumer)
        queue.pump(now)

    def _new_tag(self) -> str:
        return f"amq.ctag-{secrets.token_urlsafe(16)}"

    def _consume_replies(self, method: BasicConsume) -> None:
        """Let answers come to this channel: direct reply-to."""
        tag = method.consumer_tag
        if tag and tag in self.consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        if self._reply_tag is not None:
            raise PreconditionFailed("reply consumer already set")
        if not method.no_ack:
            raise PreconditionFailed("reply consumer cannot acknowledge")
        self._reply_tag = tag or self._new_tag()
        self._reply_name = self._reply_name or direct_reply_to.new_name()
        self.vhost.reply_consumers[self._reply_name] = self
        self._reply(method, BasicConsumeOk(self._reply_tag))

    def _end_replies(self) -> None:
        """Let no more answers come."""
        self._reply_tag = None
        self.vhost.reply_consumers.pop(self._reply_name, None)

    def _basic_cancel(self, method: BasicCancel, now: float) -> None:
        if method.consumer_tag == self._reply_tag:
            self._end_replies()
        consumer = self.consumers.pop(method.consumer_tag, None)
        self._reply(method, BasicCancelOk(method.consumer_tag))
        if consumer is not None:
            self._end(consumer, now)

    def _end(self, consumer: Consumer, now: float) -> None:
        consumer.queue.unsubscribe(consumer, now)
        if self.vhost.events.observers:
            self.vhost.events.report("consumer.deleted", self.vhost.name, consumer)

    def _basic_cancel_ok(self, method: BasicCancelOk, now: float) -> None:
        """A client's answer to a notice that needed none."""

    def _basic_get(self, method: BasicGet, now: float) -> None:
        self._check(READ, "queue", self._queue_name(method.queue))
        queue = self._queue(method.queue)
        entry = queue.get(now)
        if entry is None:
            self._reply(method, BasicGetEmpty())
            return
        self._next_tag += 1
        if not method.no_ack:
            queue.hold(entry, None)
            self.unacked.add(self._next_tag, entry)
        else:
            queue.forget(entry)
        message = entry.message
        got = BasicGetOk(
            self._next_tag, entry.is_redelivered, message.exchange, message.routing_key, queue.message_count
        )
        self.link.say(self.number, got)
        self.link.write(content_frames.content(self.number, entry.header, message.body, self.link.frame_max))
        vhost = self.vhost
        if vhost.is_traced:
            self._trace_delivery(queue, entry, now)
        if vhost.events.observers:
            tag = self._next_tag
            vhost.events.report("message.delivered", vhost.name, message, queue=queue, channel=self, tag=tag)

    def _basic_recover(self, method: BasicRecover | BasicRecoverAsync, now: float) -> None:
        if not method.requeue:
            raise NotImplementedByServer("requeue=false")
        if isinstance(method, BasicRecover):
            self._reply(method, BasicRecoverOk())
        self._apply(self.unacked.take_all(), REQUEUE, now)

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
        for publish, message, queues in publishes:
            # By their names: what is deleted and made again gets them too, as with RabbitMQ.
            still_there = tuple(self.vhost.queues[queue.name] for queue in queues if queue.name in self.vhost.queues)
            self._enqueue(publish, message, still_there, now)
        for entries, outcome in acks:
            self._apply(entries, outcome, now)
        if self._journal is None:
            self._reply(method, TxCommitOk())
        else:
            self._journal.when_committed(self._commit_kept)

    def _commit_kept(self) -> None:
        if self._is_open:
            self.link.say(self.number, TxCommitOk())

    def _tx_rollback(self, method: TxRollback, now: float) -> None:
        self._check_transactional()
        self._pending_publishes = []
        acks, self._pending_acks = self._pending_acks, []
        for entries, _ in acks:
            self.unacked.put_back(entries)
        self._reply(method, TxRollbackOk())

    def _check_transactional(self) -> None:
        if not self.is_transactional:
            raise PreconditionFailed("channel is not transactional")


def stripped(name: str) -> str:
    """A name as RabbitMQ takes it: without line ends."""
    return name.translate(_LINE_ENDS) if "\n" in name or "\r" in name else name


def by_queue(entries: list[Entry]) -> Iterable[tuple[Queue, list[Entry]]]:
    """Entries, each queue's together and in their order."""
    if len(entries) == 1:
        return ((entries[0].queue, entries),)
    queues: dict[Queue, list[Entry]] = {}
    for entry in entries:
        queues.setdefault(entry.queue, []).append(entry)
    return queues.items()


_LINE_ENDS = dict.fromkeys(map(ord, "\r\n"))


def check_not_default(exchange: str) -> None:
    """403 for the default exchange, with which nothing can be done but publish to it."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")


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
