"""One 0-9-1 channel of the broker: a handler for each method that its client may send, and the replies.

The handlers are in the order of the specification's classes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from amqproxy.amqp091.errors import (
    AccessRefused,
    CommandInvalid,
    InternalError,
    NotAllowed,
    NotFound,
    NotImplementedByServer,
    PreconditionFailed,
)
from amqproxy.amqp091.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicCredit,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
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
from amqproxy.amqp091.wire import Table
from amqproxy.broker import firehose
from amqproxy.broker.access.permissions import CONFIGURE, READ, WRITE
from amqproxy.broker.amqp091 import direct_reply_to
from amqproxy.broker.amqp091.deliveries import Deliveries
from amqproxy.broker.amqp091.publisher import Publisher
from amqproxy.broker.connections.output import short_string
from amqproxy.broker.message import Message
from amqproxy.broker.queues.consumer import UNLIMITED, Consumer, QueueEntry
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_arguments import check_consume
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.work import Job

if TYPE_CHECKING:
    from amqproxy.broker.amqp091.owners import OwningConnection
    from amqproxy.broker.exchanges.exchange import Exchange
    from amqproxy.broker.vhost import VirtualHost


class ClosedChannel:
    """The facts of a closed channel for disk confirmations and deliveries that are still pending when it closes."""

    __slots__ = ("connection", "number", "place", "reply_name", "reply_tag")

    is_open = False

    def __init__(self, channel: BrokerChannel) -> None:
        self.connection = channel.connection
        self.number = channel.number
        self.place = channel.place
        self.reply_tag = channel.reply_tag
        self.reply_name = channel.reply_name


class BrokerChannel:
    """One open channel. Replies go to its `Amqp091Connection`; a `ProtocolError` closes the channel or the connection.

    Its `publisher` and its `deliveries` process everything that belongs to each message. `reply_tag` is the consumer
    tag of its direct reply-to consumer, if it has one, and `reply_name` the routing key of the replies.
    """

    def __init__(self, number: int, connection: OwningConnection, vhost: VirtualHost) -> None:
        self.number = number
        self.connection = connection
        self.vhost = vhost
        self.user = connection.user
        self.last_queue = ""
        self.prefetch = 0
        self.reply_name = ""
        self.reply_tag: str | None = None
        self.publisher = Publisher(self, vhost, connection.user, connection.output)
        self.deliveries = Deliveries(self, vhost, connection.output)
        self._journal = vhost.storage.journal if vhost.storage is not None else None
        self._place: Table | None = None

    @property
    def is_open(self) -> bool:
        return self.connection.channels.get(self.number) is self and not self.connection.is_over

    @property
    def place(self) -> Table:
        """The firehose headers that name this channel as the origin of a trace."""
        if self._place is None:
            node, connection = self.connection.broker.node, self.connection.name
            self._place = firehose.place(node, self.vhost.name, connection, self.number, self.user.name)
        return self._place

    def deliver_reply(self, name: str, message: Message) -> None:
        """Deliver a direct reply-to reply to the client of this channel."""
        assert self.reply_tag is not None
        self.deliveries.reply(self.reply_tag, name, message)

    def closing(self, now: float) -> Generator[None, float, float]:
        """Requeue the unacknowledged messages of the closed channel and end its consumers, in steps."""
        self._end_replies()
        next_time = yield from self.deliveries.closing(now)
        # Tickets still waiting for the disk refer to the `ClosedChannel`: a reference to the channel itself would be a
        # cycle that keeps all of it in memory.
        self.deliveries.channel = ended = ClosedChannel(self)
        self.publisher.end(ended)
        return next_time

    # --- all other methods

    def handle(self, method: Method, now: float) -> None:
        """Process a method that neither the `publisher` nor the `deliveries` handle.

        A method that reads the content of a queue waits until the queue's unfinished work is done.
        """
        if isinstance(method, _LOOKING):
            queue = self.vhost.queues.get(_named_queue(method) or self.last_queue)
            if queue is not None and not queue.is_settled(now):
                self.connection.do(self._handling(method, queue, now), now)
                return
        _HANDLERS[type(method)](self, method, now)

    def _handling(self, method: Method, queue: Queue, now: float) -> Generator[None, float, None]:
        """Process a method once the queue has no unfinished work that the client could notice."""
        while not (queue.is_deleted or queue.is_settled(now)):
            now = yield
        _HANDLERS[type(method)](self, method, now)

    def _reply(self, method: Any, reply: Method) -> None:
        if not getattr(method, "no_wait", False):
            self.connection.send_method(self.number, reply)

    def _reply_kept(self, method: Any, reply: Method, *places: Queue | Exchange | None) -> None:
        """Send the reply unless the method has `no_wait`; for durable `places`, when the definition is on disk.

        A power cut must not undo a definition confirmed to the client.
        """
        journal = self._journal
        if getattr(method, "no_wait", False):
            return
        if journal is not None and journal.is_defining and all(each is not None and each.durable for each in places):
            self.connection.answer_when_kept(journal, self.number, reply)
        else:
            self.connection.send_method(self.number, reply)

    def _queue_name(self, method: Any) -> str:
        """Return the method's queue name; an empty one stands for the last declared queue (section 1.7.2.1)."""
        if method.queue:
            return _named_queue(method)
        if not self.last_queue:
            raise NotFound("no previously declared queue")
        return self.last_queue

    def _queue(self, method: Any) -> Queue:
        return self.vhost.queue(self._queue_name(method), self.connection)

    def _access_request(self, method: AccessRequest, now: float) -> None:
        self._reply(method, AccessRequestOk(1))

    def _channel_flow(self, method: ChannelFlow, now: float) -> None:
        if not method.active:
            raise NotImplementedByServer("active=false")
        self._reply(method, ChannelFlowOk(True))

    def _check(self, operation: str, kind: str, name: str) -> None:
        self.user.check(self.vhost.name, operation, kind, name)

    def _check_passive(self, kind: str, name: str) -> None:
        """Raise 403, as RabbitMQ from 4.3 on, without any permission for a name."""
        is_known = any(self.user.may(self.vhost.name, each, name) for each in (CONFIGURE, WRITE, READ))
        if self.vhost.profile.checks_passive and not is_known:
            self._check(CONFIGURE, kind, name)

    def _exchange_declare(self, method: ExchangeDeclare, now: float) -> None:
        name = stripped(method.exchange)
        if method.passive:
            check_not_default(name)
            self._check_passive("exchange", name)
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
        self._reply_kept(method, ExchangeDeclareOk(), self.vhost.exchanges.get(name))

    def _exchange_delete(self, method: ExchangeDelete, now: float) -> None:
        name = stripped(method.exchange)
        check_not_default(name)
        if name.startswith("amq."):
            raise AccessRefused(f"deletion of system exchange '{name}' in vhost '{self.vhost.name}' not allowed")
        self._check(CONFIGURE, "exchange", name)
        self.connection.do(self._deleting_exchange(name, method), now)

    def _deleting_exchange(self, name: str, method: ExchangeDelete) -> Job:
        exchange = self.vhost.exchanges.get(name)
        self.vhost.delete_exchange(name, if_unused=method.if_unused)
        while self.vhost.is_unbinding:
            yield
        self._reply_kept(method, ExchangeDeleteOk(), exchange)

    def _check_binding(self, kind: str, destination: str, source: str, routing_key: str) -> None:
        """Raise 403 unless the user may bind or unbind this destination and source."""
        self._check(WRITE, kind, destination)
        check_not_default(source)
        if kind == "exchange":
            check_not_default(destination)
        self._check(READ, "exchange", source)
        exchange = self.vhost.exchanges.get(source)
        if exchange is not None:
            exchange.check_topic(self.user, self.vhost.name, READ, routing_key)

    def _exchange_bind(self, method: ExchangeBind, now: float) -> None:
        source, destination = stripped(method.source), stripped(method.destination)
        self._check_binding("exchange", destination, source, method.routing_key)
        first, second = self.vhost.exchange(source), self.vhost.exchange(destination)
        self.vhost.bind(first, second, method.routing_key, method.arguments)
        self._reply_kept(method, ExchangeBindOk(), first, second)

    def _exchange_unbind(self, method: ExchangeUnbind, now: float) -> None:
        source, destination = stripped(method.source), stripped(method.destination)
        self._check_binding("exchange", destination, source, method.routing_key)
        first, second = self.vhost.exchanges.get(source), self.vhost.exchanges.get(destination)
        if first is not None and second is not None:
            self.vhost.unbind(first, second, method.routing_key, method.arguments)
        self._reply_kept(method, ExchangeUnbindOk(), first, second)

    def _queue_declare(self, method: QueueDeclare, now: float) -> None:
        name = stripped(method.queue)
        if direct_reply_to.is_reply_name(name):
            if name != direct_reply_to.NAME and name not in self.vhost.reply_consumers:
                raise self.vhost.queue_not_found(name)
            self.last_queue = name
            self._reply(method, QueueDeclareOk(name, 0, 1))
            return
        if method.passive:
            self._check_passive("queue", name)
            queue = self.vhost.queue(name, self.connection)
            queue.touch(now)
        else:
            self.vhost.check_queue_name(name)
            name = name or self.vhost.new_queue_name()
            self._check(CONFIGURE, "queue", name)
            self._check_features(method)
            if name not in self.vhost.queues:
                self.vhost.check_queue_limit(name)
                dead_letters_to = method.arguments.get("x-dead-letter-exchange")
                if isinstance(dead_letters_to, str):
                    self._check(READ, "queue", name)
                    self._check(WRITE, "exchange", dead_letters_to)
            is_new = name not in self.vhost.queues
            queue = self.vhost.declare_queue(
                name,
                self.connection,
                durable=method.durable,
                exclusive=method.exclusive,
                auto_delete=method.auto_delete,
                arguments=self.vhost.with_default_type(
                    method.arguments,
                    durable=method.durable,
                    exclusive=method.exclusive,
                    auto_delete=method.auto_delete,
                ),
                now=now,
            )
            self.vhost.events.churn.count_declare(is_new=is_new)
        if queue.exclusive_to is self.connection:
            self.connection.exclusive_queues[queue] = None
        self.last_queue = queue.name
        self._reply_kept(method, QueueDeclareOk(queue.name, queue.message_count, queue.consumer_count), queue)

    def _check_features(self, method: QueueDeclare) -> None:
        """Raise 541, as RabbitMQ does, for a queue that needs a deprecated feature which may not be used."""
        profile = self.vhost.profile
        for feature, is_used in (
            ("transient_nonexcl_queues", not method.durable and not method.exclusive),
            ("queue_master_locator", "x-queue-master-locator" in method.arguments),
        ):
            if is_used and not profile.permits(feature):
                raise InternalError(profile.denied_text(feature))

    def _queue_bind(self, method: QueueBind, now: float) -> None:
        name, source = self._queue_name(method), stripped(method.exchange)
        routing_key = method.routing_key if method.queue or method.routing_key else name
        self._check_binding("queue", name, source, routing_key)
        exchange = self.vhost.exchange(source)
        queue = self.vhost.queue(name, self.connection)
        self.vhost.bind(exchange, queue, routing_key, method.arguments)
        self._reply_kept(method, QueueBindOk(), exchange, queue)

    def _queue_unbind(self, method: QueueUnbind, now: float) -> None:
        name, source = self._queue_name(method), stripped(method.exchange)
        routing_key = method.routing_key if method.queue or method.routing_key else name
        self._check_binding("queue", name, source, routing_key)
        exchange, queue = self.vhost.exchanges.get(source), self.vhost.queues.get(name)
        if exchange is not None and queue is not None:
            self.vhost.unbind(exchange, queue, routing_key, method.arguments, self.connection)
        self._reply_kept(method, QueueUnbindOk(), exchange, queue)

    def _queue_purge(self, method: QueuePurge, now: float) -> None:
        self._check(READ, "queue", self._queue_name(method))
        queue = self._queue(method)
        count = queue.purge()
        if self.vhost.events.observers:
            self.vhost.events.report("queue.purged", self.vhost.name, queue, count=count)
        self._reply_kept(method, QueuePurgeOk(count), queue)

    def _queue_delete(self, method: QueueDelete, now: float) -> None:
        name = self._queue_name(method)
        if direct_reply_to.is_reply_name(name):
            self._reply(method, QueueDeleteOk(0))
            return
        self._check(CONFIGURE, "queue", name)
        self.connection.do(self._deleting_queue(name, method), now)

    def _deleting_queue(self, name: str, method: QueueDelete) -> Job:
        queue = self.vhost.queues.get(name)
        with self.connection.notices_held():  # the answer comes before basic.cancel
            count = self.vhost.delete_queue(name, self.connection, if_unused=method.if_unused, if_empty=method.if_empty)
            while self.vhost.is_unbinding:
                yield
            self._reply_kept(method, QueueDeleteOk(count), queue)

    def _basic_qos(self, method: BasicQos, now: float) -> None:
        if method.prefetch_size:
            raise NotImplementedByServer(f"prefetch_size!=0 ({method.prefetch_size})")
        if method.global_ and self.vhost.profile.permits("global_qos"):
            self.deliveries.global_prefetch = method.prefetch_count or UNLIMITED
        else:
            self.prefetch = method.prefetch_count
        self._reply(method, BasicQosOk())
        self.deliveries.pump(now)

    def _basic_consume(self, method: BasicConsume, now: float) -> None:
        tag = method.consumer_tag
        if method.queue == direct_reply_to.NAME:
            self._consume_replies(method)
            return
        self._check(READ, "queue", self._queue_name(method))
        if tag and (tag in self.deliveries.consumers or tag == self.reply_tag):
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        queue = self._queue(method)
        tag = tag or self._new_tag()
        check_consume(str(queue), queue.type, method.arguments, self.vhost.profile)
        queue.check_consumer(
            exclusive=method.exclusive,
            no_ack=method.no_ack,
            prefetch=self.prefetch,
            is_limited=self.deliveries.global_prefetch != UNLIMITED,
        )
        consumer = Consumer(
            tag,
            queue,
            self.deliveries,
            no_ack=method.no_ack,
            exclusive=method.exclusive,
            prefetch=self.prefetch,
            arguments=method.arguments,
        )
        consumer.head = short_string(tag)
        self.deliveries.consumers[tag] = consumer
        queue.subscribe(consumer, now)
        self._reply(method, BasicConsumeOk(tag))
        if self.vhost.events.observers:
            self.vhost.events.report("consumer.created", self.vhost.name, consumer)
        queue.pump(now)

    def _new_tag(self) -> str:
        return f"amq.ctag-{secrets.token_urlsafe(16)}"

    def _consume_replies(self, method: BasicConsume) -> None:
        """Register this channel's direct reply-to consumer."""
        tag = method.consumer_tag
        if tag and tag in self.deliveries.consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        if self.reply_tag is not None:
            raise PreconditionFailed("reply consumer already set")
        if not method.no_ack:
            raise PreconditionFailed("reply consumer cannot acknowledge")
        self.reply_tag = tag or self._new_tag()
        self.reply_name = self.reply_name or direct_reply_to.new_name()
        self.vhost.reply_consumers[self.reply_name] = self
        self._reply(method, BasicConsumeOk(self.reply_tag))

    def _end_replies(self) -> None:
        """Remove this channel's direct reply-to consumer."""
        self.reply_tag = None
        self.vhost.reply_consumers.pop(self.reply_name, None)

    def _basic_cancel(self, method: BasicCancel, now: float) -> None:
        if method.consumer_tag == self.reply_tag:
            self._end_replies()
        consumer = self.deliveries.consumers.pop(method.consumer_tag, None)
        self._reply(method, BasicCancelOk(method.consumer_tag))
        if consumer is not None:
            self.deliveries.end(consumer, now)

    def _basic_cancel_ok(self, method: BasicCancelOk, now: float) -> None:
        """Ignore basic.cancel-ok: the broker's own basic.cancel has `no_wait` set."""

    def _basic_get(self, method: BasicGet, now: float) -> None:
        self._check(READ, "queue", self._queue_name(method))
        queue = self._queue(method)
        entry = queue.get(now)
        if entry is None:
            self.deliveries.count_get(queue, None, no_ack=method.no_ack)
            self._reply(method, BasicGetEmpty())
        elif queue.is_busy:
            self.connection.do(self._answering(queue, entry, method.no_ack, now), now)
        else:
            self.deliveries.answer(queue, entry, now, no_ack=method.no_ack)

    def _answering(self, queue: Queue, entry: QueueEntry, no_ack: bool, now: float) -> Job:
        """Send basic.get-ok once expired messages behind this one are gone: `message_count` must not include them."""
        while not (queue.is_deleted or queue.is_settled(now)):
            now = yield
        self.deliveries.answer(queue, entry, now, no_ack=no_ack)

    def _basic_recover(self, method: BasicRecover | BasicRecoverAsync, now: float) -> None:
        if not method.requeue:
            raise NotImplementedByServer("requeue=false")
        if isinstance(method, BasicRecover):
            self._reply(method, BasicRecoverOk())
        self.deliveries.recover(now)

    def _confirm_select(self, method: ConfirmSelect, now: float) -> None:
        if self.publisher.is_transactional:
            raise PreconditionFailed("cannot switch from tx to confirm mode")
        self.publisher.select_confirms()
        self._reply(method, ConfirmSelectOk())

    def _tx_select(self, method: TxSelect, now: float) -> None:
        if self.publisher.is_confirming:
            raise PreconditionFailed("cannot switch from confirm to tx mode")
        self.publisher.is_transactional = self.deliveries.is_transactional = True
        self._reply(method, TxSelectOk())

    def _tx_commit(self, method: TxCommit, now: float) -> None:
        self._check_transactional()
        self.connection.do(self._committing(method, now), now)

    def _committing(self, method: TxCommit, now: float) -> Generator[None, float, None]:
        now = yield from self.publisher.committing(now)
        ticket = self.publisher.take_ticket()
        yield from self.deliveries.committing(now)
        if self._journal is None:
            self._reply(method, TxCommitOk())
        else:
            self._journal.when_committed(partial(self._commit_kept, ticket), self.connection.fail_soon)

    def _commit_kept(self, ticket: DurabilityTicket) -> None:
        if ticket.is_refused:
            self.connection.fail_soon()
        elif self.is_open:
            self.connection.send_method(self.number, TxCommitOk())

    def _basic_credit(self, method: BasicCredit, now: float) -> None:
        """Refuse basic.credit, which only RabbitMQ's AMQP 1.0 plugin sends; 3.10 answers 406 for an unknown tag."""
        if not self.vhost.profile.knows_basic_credit:
            raise CommandInvalid("unimplemented method")
        if method.consumer_tag not in self.deliveries.consumers:
            raise PreconditionFailed(f"unknown consumer tag '{method.consumer_tag}'")
        raise NotImplementedByServer("basic.credit")

    def _tx_rollback(self, method: TxRollback, now: float) -> None:
        self._check_transactional()
        self.connection.do(self._rolling_back(method, now), now)

    def _rolling_back(self, method: TxRollback, now: float) -> Job:
        self.publisher.roll_back()
        yield from self.deliveries.rolling_back(now)
        self._reply(method, TxRollbackOk())

    def _check_transactional(self) -> None:
        if not self.publisher.is_transactional:
            raise PreconditionFailed("channel is not transactional")


def stripped(name: str) -> str:
    """Return a name without line ends, which RabbitMQ drops wherever it declares, binds, unbinds or deletes."""
    return name.translate(_LINE_ENDS) if "\n" in name or "\r" in name else name


def _named_queue(method: Any) -> str:
    """Return a method's queue name. RabbitMQ 3.10 keeps line ends, and answers 404, for the methods in `_TAKING`."""
    return method.queue if isinstance(method, _TAKING) else stripped(method.queue)


_TAKING = (BasicGet, BasicConsume, QueuePurge)
"""Methods that take messages out of a queue."""

_LOOKING = (BasicGet, QueueDeclare, QueueDelete, QueuePurge)
"""Methods whose reply depends on the messages in a queue."""

_LINE_ENDS = dict.fromkeys(map(ord, "\r\n"))


def check_not_default(exchange: str) -> None:
    """Raise 403 for the default exchange, to which clients can only publish."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")


_HANDLERS: dict[type[Method], Callable[[BrokerChannel, Any, float], None]] = {
    AccessRequest: BrokerChannel._access_request,
    BasicCancel: BrokerChannel._basic_cancel,
    BasicCancelOk: BrokerChannel._basic_cancel_ok,
    BasicConsume: BrokerChannel._basic_consume,
    BasicCredit: BrokerChannel._basic_credit,
    BasicGet: BrokerChannel._basic_get,
    BasicQos: BrokerChannel._basic_qos,
    BasicRecover: BrokerChannel._basic_recover,
    BasicRecoverAsync: BrokerChannel._basic_recover,
    ChannelFlow: BrokerChannel._channel_flow,
    ConfirmSelect: BrokerChannel._confirm_select,
    ExchangeBind: BrokerChannel._exchange_bind,
    ExchangeDeclare: BrokerChannel._exchange_declare,
    ExchangeDelete: BrokerChannel._exchange_delete,
    ExchangeUnbind: BrokerChannel._exchange_unbind,
    QueueBind: BrokerChannel._queue_bind,
    QueueDeclare: BrokerChannel._queue_declare,
    QueueDelete: BrokerChannel._queue_delete,
    QueuePurge: BrokerChannel._queue_purge,
    QueueUnbind: BrokerChannel._queue_unbind,
    TxCommit: BrokerChannel._tx_commit,
    TxRollback: BrokerChannel._tx_rollback,
    TxSelect: BrokerChannel._tx_select,
}
