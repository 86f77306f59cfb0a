"""Publishes of one 0-9-1 channel: assembled, checked, routed and confirmed; on the hot path of every publish.

Content, routing and confirms are one class because they share one state, whose fields C accesses directly.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING

from amqproxy.amqp091.errors import AccessRefused, FrameError, NotImplementedByServer, PreconditionFailed
from amqproxy.amqp091.frame import BODY, FRAME_END, METHOD, Frame
from amqproxy.amqp091.methods import BasicAck, BasicNack, BasicPublish, BasicReturn
from amqproxy.amqp091.properties import NO_PROPERTIES
from amqproxy.broker import firehose
from amqproxy.broker.access.permissions import WRITE
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp091 import direct_reply_to, publish_checks
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.message import Message, published
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.vhost import VirtualHost

if TYPE_CHECKING:
    from amqproxy.broker.amqp091.owners import OwningChannel
    from amqproxy.broker.exchanges.exchange import Exchange

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

Queues = tuple[Queue, ...]

SETTLEMENT = struct.Struct(">BHIHHQBB")
"""A frame with a basic.ack or a basic.nack."""

ACK, NACK = BasicAck.method_id, BasicNack.method_id
MULTIPLE, REQUEUE = 1, 2
"""Flag bits of basic.ack and basic.nack; a nack for a publisher has `REQUEUE` set, as RabbitMQ sends it."""

MAX_ROUTES = 256
"""Routes cached for one channel; when the cache is full, it is cleared."""

MAX_ANNOUNCED = 2**64 - 1
"""Largest body size that a content header can announce."""

AT_ONCE = 64
"""Number of queues up to which a message is enqueued to all of them in one turn."""

MANY = 16
"""Number of queues above which a message shortens the turn."""

_MANY = MANY
_AT_ONCE = AT_ONCE  # these as C sees them
_METHOD = METHOD
_BODY = BODY
_MAX_ROUTES = MAX_ROUTES


class CachedRoute:
    """Authorised route of all publishes with the same method frame, valid while both generations are unchanged.

    `queues` is `None` if they depend on the message. `is_answer` is whether its routing key may be a direct reply-to
    name.
    """

    __slots__ = (
        "counts",
        "exchange",
        "exchange_name",
        "generation",
        "is_answer",
        "is_mandatory",
        "publish",
        "queues",
        "routing_key",
        "user_generation",
    )

    def __init__(self, publish: BasicPublish, exchange: Exchange, generation: int, user_generation: int) -> None:
        self.publish = publish
        self.exchange = exchange
        self.counts: MessageCounts = exchange.counts
        self.exchange_name = publish.exchange
        self.routing_key = publish.routing_key
        self.is_mandatory = publish.mandatory
        self.is_answer = not exchange.name and publish.routing_key.startswith("amq.")
        self.generation = generation
        self.user_generation = user_generation
        self.queues: Queues | None = None


class Publisher:
    """The publishes of one channel; a `ProtocolError` closes the channel or its connection.

    A method frame or content header that equals an earlier one byte for byte is not decoded or checked again, and
    reuses its cached route or properties.
    """

    def __init__(self, channel: OwningChannel, vhost: VirtualHost, user: User, output: OutputBuffer) -> None:
        self.channel = channel
        self.number = channel.number
        self.vhost = vhost
        self.user = user
        self.output = output
        self.is_confirming = False
        self.is_transactional = False
        self._largest = channel.connection.broker.max_message_size
        self._announced_max = vhost.profile.announced_max or MAX_ANNOUNCED
        self._journal = vhost.storage.journal if vhost.storage is not None else None
        self._ticket = DurabilityTicket()
        self._tickets: deque[DurabilityTicket] = deque()
        self._is_to_confirm = False
        self._waits_for_disk = False
        self._count = 0
        self._acks = 0
        self._last_ack = 0
        self._rejected: list[tuple[int, int, int]] = []
        self._method = b""
        self._route: CachedRoute | None = None
        self._publish: BasicPublish | None = None
        self._cached_routes: dict[bytes, CachedRoute] = {}
        self._header = b""
        self._header_frame: Frame | None = None
        self._known_header = b""
        self._body = b""
        self._bodies: list[bytes] | None = None
        self._announced = self._remaining = 0
        self._properties = NO_PROPERTIES
        self._pending: list[tuple[bool, Message, Queues]] = []
        self._quantum = vhost.work.quantum
        self.counts = MessageCounts()
        self._totals = vhost.counts

    # --- a content's frames

    @property
    def bytes_arriving(self) -> int:
        """Bytes received of a body that is incomplete."""
        return 0 if self._bodies is None else self._announced - self._remaining

    def receive(self, frame: Frame, now: float) -> None:
        """Take a basic.publish frame or a frame of its content; the reader has checked their order."""
        kind = frame.kind
        if kind == _BODY:
            size = frame.length() - 8
            if self._announced <= self._largest:
                if self._bodies is not None:
                    self._bodies.append(frame.payload_bytes())
                elif size == self._remaining:
                    self._body = frame.payload_bytes()
                else:
                    self._bodies = [frame.payload_bytes()]
            self._remaining -= size
        elif kind == _METHOD:
            self._begin(frame)
            return
        else:
            self._header_frame = frame
            self._announced = self._remaining = frame.announced()
            if self._announced > self._announced_max:
                raise FrameError(
                    f"content body size {self._announced} exceeds maximum allowed size {self._announced_max}"
                )
            self._body = b""
            self._bodies = None
        if self._remaining:
            return
        bodies = self._bodies
        if bodies is not None:
            self._body = b"".join(bodies)
            self._bodies = None
        self._accept(now)

    def _begin(self, frame: Frame) -> None:
        """Take a basic.publish method and its cached route, if there is one."""
        if frame.is_as(self._method):
            return
        raw = frame.raw
        self._method = b""
        self._route = self._cached_routes.get(raw)
        if self._route is None:
            self._publish = frame.method
        else:
            self._publish = self._route.publish
        self._method = raw

    # --- checks

    def _accept(self, now: float) -> None:
        """Check a complete publish in RabbitMQ's order of checks, then route it; a refused publish is not routed."""
        vhost = self.vhost
        route = self._route
        if self._announced > self._largest:
            self._check_immediate()
            size, limit = self._announced, self._largest
            raise PreconditionFailed(f"message size {size} is larger than configured max size {limit}")
        if route is None or route.generation != vhost.generation or route.user_generation != self.user.generation:
            route = self._find_route()
        header, body = self._header_frame, self._body
        assert header is not None
        self._header_frame = None
        self._body = b""
        if header.is_as(self._known_header):
            # The same header as that of the previous publish, which was accepted.
            message = published(route.exchange_name, route.routing_key, self._header, body, self._properties)
        else:
            message = self._with_properties_checked(route, header, body)
        queues = route.queues
        is_mandatory = route.is_mandatory
        if queues is None or message.more_keys:
            found = vhost.router.route(route.exchange, message, now)
            queues = found.queues
            if found.is_delayed:
                if found.is_stored:
                    self._ticket.left += 1  # until it is on the disk
                    self._waits_for_disk = not queues
                is_mandatory = False  # its queues are not known yet
            elif found.is_cacheable and not message.more_keys:
                route.queues = queues
        if (route.is_answer or (message.more_keys and not route.exchange_name)) and self._answer(message):
            is_mandatory = is_mandatory and vhost.profile.returns_replies
        if vhost.is_traced or vhost.events.observers:
            self._published(route.exchange, message, queues, now)
        if self.is_transactional:
            self._pending.append((is_mandatory, message, queues))
        else:
            self._count_publish(route.counts, queues)
            self._enqueue(is_mandatory, message, queues, now)

    def _check_immediate(self) -> None:
        assert self._publish is not None
        if self._publish.immediate:
            raise NotImplementedByServer("immediate=true")

    def _find_route(self) -> CachedRoute:
        """Return the route of the current publish; raise a `ProtocolError` if the client may not publish there."""
        publish, vhost, user = self._publish, self.vhost, self.user
        assert publish is not None
        self._route = None
        self._check_immediate()
        user.check(vhost.name, WRITE, "exchange", publish.exchange)
        exchange = vhost.exchange(publish.exchange)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'")
        exchange.check_topic(user, vhost.name, WRITE, publish.routing_key)
        route = CachedRoute(publish, exchange, vhost.generation, user.generation)
        route.queues = vhost.router.cached(exchange, publish.routing_key)
        if self._method:
            if len(self._cached_routes) >= _MAX_ROUTES:
                self._cached_routes.clear()
            self._cached_routes[self._method] = self._route = route
        return route

    def _with_properties_checked(self, route: CachedRoute, frame: Frame, body: bytes) -> Message:
        """Return a message whose header differs from the previous one; raise a `ProtocolError` if it is refused."""
        vhost = self.vhost
        self._known_header = b""
        header = frame.payload_bytes()
        properties = publish_checks.properties_of(frame)
        message = published(route.exchange_name, route.routing_key, header, body, properties)
        if not message.has_properties:
            properties = NO_PROPERTIES
        else:
            properties = publish_checks.checked(properties, self.user, vhost.profile)
            is_own = properties.user_id is not None or properties.reply_to == direct_reply_to.NAME
            if properties.reply_to == direct_reply_to.NAME:
                if self.channel.reply_tag is None:
                    raise PreconditionFailed("fast reply consumer does not exist")
                properties = direct_reply_to.addressed(properties, self.channel.reply_name)
            headers = properties.headers
            keys: tuple[str, ...] = ()
            if headers is not None and b"CC" in headers.octets:
                keys = publish_checks.more_keys(headers)
                if "BCC" in headers:
                    properties = publish_checks.without_bcc(properties)
            if properties is not message.properties:
                message = Message.made(route.exchange_name, route.routing_key, properties, body, keys)
                header = message.header
            if keys or is_own:
                message.more_keys = keys
                return message
        self._header, self._properties = header, properties
        self._known_header = frame.raw
        return message

    # --- enqueueing

    def _count_publish(self, exchange: MessageCounts, queues: Queues) -> None:
        """Count a publish for its exchange, its queues, this channel and the virtual host."""
        self.counts.published += 1
        self._totals.published += 1
        self._totals.routed += len(queues)
        exchange.published += 1
        exchange.routed += len(queues)
        queue: Queue
        for queue in queues:
            queue.counts.published += 1

    def _enqueue(self, is_mandatory: cython.bint, message: Message, queues: Queues, now: float) -> None:
        """Enqueue a message to its queues; return or confirm it if the client asked for that."""
        if self._are_many(queues):
            self.channel.connection.do(self._enqueueing(message, queues, now), now)
            return
        self._count += 1
        if not queues:
            self._enqueue_nowhere(is_mandatory, message)
            return
        if len(queues) > 1:
            self._quantum.left -= len(queues)
            if len(queues) > _MANY:
                self._quantum.hasten()
        is_taken = True
        ticket = self._ticket if self.is_confirming or self.is_transactional else None
        queue: Queue
        for queue in queues:
            if not queue.publish(message, now, ticket):
                is_taken = False
        message.forget_properties()
        if self.is_confirming:
            self._to_confirm(is_taken)

    def _are_many(self, queues: Queues) -> cython.bint:
        return len(queues) > _AT_ONCE or len(queues) > self._quantum.step

    def _enqueueing(self, message: Message, queues: Queues, now: float) -> Generator[None, float, float]:
        """Enqueue a message to a large number of queues, in steps."""
        quantum = self._quantum
        quantum.hasten()
        is_taken = True
        size = min(_AT_ONCE, quantum.step)
        for start in range(0, len(queues), size):
            ticket = self._ticket if self.is_confirming or self.is_transactional else None
            for queue in queues[start : start + size]:
                if not queue.is_deleted and not queue.publish(message, now, ticket):
                    is_taken = False
            if quantum.spend(size):
                now = yield
        message.forget_properties()
        self._count += 1
        if self.is_confirming:
            self._to_confirm(is_taken)
        return now

    def _enqueue_nowhere(self, is_mandatory: cython.bint, message: Message) -> None:
        """Return an unroutable message if it is mandatory, and confirm it.

        Its confirm is sent separately, before the next method is handled, and ahead of earlier pending confirms.
        """
        if is_mandatory:
            self._return(message)
        else:
            self.counts.dropped += 1
            self._totals.dropped += 1
        message.forget_properties()
        waits_for_disk, self._waits_for_disk = self._waits_for_disk, False
        if not self.is_confirming:
            return
        if waits_for_disk:  # a delayed message
            self._to_confirm(True)
        else:
            self._ack(self._count, 1)

    def _to_confirm(self, is_taken: cython.bint) -> None:
        """Schedule a basic.ack or basic.nack of the last publish for the end of this turn."""
        if is_taken:
            self._acks += 1
            self._last_ack = self._count
        else:
            self._rejected.append((self._count, self._acks, self._last_ack))
        if not self._is_to_confirm:
            self._is_to_confirm = True
            self.channel.connection.to_confirm(self)

    def _return(self, message: Message) -> None:
        self.counts.returned += 1
        self._totals.returned += 1
        self.channel.connection.send_method(
            self.number, BasicReturn(312, "NO_ROUTE", message.exchange, message.routing_key)
        )
        self.output.content(self.number, message.header, message.body)
        if self.vhost.events.observers:
            self.vhost.events.report("message.returned", self.vhost.name, message, channel=self.channel)

    def _answer(self, message: Message) -> bool:
        """Deliver a message to the direct reply-to names among its routing keys; return whether there are any."""
        is_reply = False
        for key in {message.routing_key, *message.more_keys}:
            asking = self.vhost.reply_consumers.get(key)
            if asking is not None:
                asking.deliver_reply(key, message)
            is_reply = is_reply or asking is not None or direct_reply_to.is_reply_name(key)
        return is_reply

    def _published(self, exchange: Exchange, message: Message, queues: Queues, now: float) -> None:
        """Report a publish to the firehose and to observers."""
        vhost = self.vhost
        if vhost.is_traced:
            with vhost.events.contained("tracing failed", vhost=vhost.name):
                # The default exchange finds each name, whether a queue has it or not.
                names = [queue.name for queue in queues] if exchange.name else [message.routing_key, *message.more_keys]
                trace = firehose.traced_publish(message, self.channel.place, names)
                vhost.publish(vhost.exchanges[firehose.EXCHANGE], trace, now)
        if vhost.events.observers:
            vhost.events.report("message.published", vhost.name, message, exchange=exchange, queues=queues)

    def end(self, channel: OwningChannel) -> None:
        """Discard the incomplete publish and the open transaction of the closed channel."""
        self.channel = channel
        self.roll_back()
        self._cached_routes.clear()
        self._route = None
        self._header_frame = None
        self._known_header = self._method = self._body = b""
        self._bodies = None

    # --- confirms and transactions

    def select_confirms(self) -> None:
        if not self.is_confirming:
            self.is_confirming = True
            self._count = 0

    def confirm(self) -> None:
        """Confirm the publishes of this turn in a batch: one basic.ack with `multiple` for all of them.

        Publishes with persistent messages are acked as soon as the journal has them on disk.
        """
        self._is_to_confirm = False
        acks, last = self._acks, self._last_ack
        self._acks = 0
        ticket = self._ticket
        if self._journal is not None and (ticket.left or self._tickets):
            for tag, _, _ in self._rejected:
                self._settle(NACK, tag, REQUEUE)
            self._rejected = []
            if acks:
                ticket.last, ticket.acks = last, acks
                self._tickets.append(ticket)
                self._journal.when_safe(ticket, self._confirm_safe, self._confirm_failed)
                self._ticket = DurabilityTicket()
            return
        if self._rejected:
            acks = self._settle_in_order(acks)
        if acks:
            self._ack(last, acks)

    def _settle_in_order(self, acks: int) -> int:
        """Send the nacks of this turn and the acks before them; return the number of acks left to send.

        No older confirm is pending, so that one frame settles each run of the same outcome.
        """
        rejected, self._rejected = self._rejected, []
        sent = 0
        for place, (tag, before, last) in enumerate(rejected):
            if before > sent:
                self._ack(last, before - sent)
                sent = before
            is_last_of_run = place + 1 == len(rejected) or rejected[place + 1][1] > sent
            if is_last_of_run:
                self._settle(NACK, tag, MULTIPLE | REQUEUE)
        return acks - sent

    def _confirm_safe(self) -> None:
        """Confirm the publishes that are on disk, up to the first that is not.

        The caller is the store, or the connection that settled the last message of a ticket. A failure closes only this
        publisher's connection, which would never get its confirm.
        """
        last = acks = 0
        is_refused = False
        while self._tickets and not self._tickets[0].left and not is_refused:
            ticket = self._tickets.popleft()
            is_refused = ticket.is_refused
            if not is_refused:
                last = ticket.last
                acks += ticket.acks
        if acks and self.channel.is_open:
            self._ack(last, acks)
        if is_refused:
            self._confirm_failed()

    def _confirm_failed(self) -> None:
        """Close the connection with 541 because a confirm that the client awaits cannot be sent."""
        self.channel.connection.fail_soon()

    def _ack(self, tag: cython.ulonglong, acks: cython.ulonglong) -> None:
        """Confirm a number of publishes, up to the one with this tag."""
        self.counts.confirmed += acks
        self._totals.confirmed += acks
        self._settle(ACK, tag, MULTIPLE if acks > 1 else 0)

    def _settle(self, method_id: cython.int, tag: cython.ulonglong, bits: cython.int) -> None:
        self.output.put(SETTLEMENT.pack(METHOD, self.number, 13, 60, method_id, tag, bits, FRAME_END))

    def committing(self, now: float) -> Generator[None, float, float]:
        """Publish the messages of the transaction, in steps; raise 406 afterwards for queues that other ones replaced,
        where the RabbitMQ version does.
        """
        is_partial = False
        pending, self._pending = self._pending, []
        pending.reverse()
        while pending:
            is_mandatory, message, queues = pending.pop()
            # Queues are looked up by name: one that was deleted and declared again gets the message, as in RabbitMQ.
            still_there = tuple(self.vhost.queues[queue.name] for queue in queues if queue.name in self.vhost.queues)
            exchange = self.vhost.exchanges.get(message.exchange)
            self._count_publish(MessageCounts() if exchange is None else exchange.counts, still_there)
            if self._are_many(still_there):
                now = yield from self._enqueueing(message, still_there, now)
            else:
                self._enqueue(is_mandatory, message, still_there, now)
            if still_there != queues and not self.vhost.profile.commits_to_successor:
                is_partial = is_partial or not set(still_there) <= set(queues)
            if self._quantum.spend(1):
                now = yield
        if is_partial:
            raise PreconditionFailed("partial tx completion")
        return now

    def take_ticket(self) -> DurabilityTicket:
        """Return the durability ticket of the published transaction, and start a new one."""
        ticket, self._ticket = self._ticket, DurabilityTicket()
        return ticket

    def roll_back(self) -> None:
        """Discard the messages of the transaction."""
        pending, self._pending = self._pending, []
        self.vhost.work.free(pending)
