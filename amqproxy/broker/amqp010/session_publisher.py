"""What a client transfers on one session: checked, routed, and completed once it is safe."""

from __future__ import annotations

import struct
from collections.abc import Generator
from contextlib import suppress
from functools import partial

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import CommandIds, id_of
from amqproxy.amqp010.commands import MessageReject, MessageTransfer
from amqproxy.amqp010.domains import AcceptMode, RejectCode
from amqproxy.amqp010.errors import (
    InvalidArgument,
    NotAllowed,
    NotFound,
    ProtocolError,
    ResourceLimitExceeded,
    UnauthorizedAccess,
)
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import NO_PROPERTIES as NO_HEADER
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp091.frame import OVERHEAD
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from amqproxy.broker import firehose
from amqproxy.broker.access.permissions import WRITE
from amqproxy.broker.amqp010.fragments import Fragments
from amqproxy.broker.amqp010.message_conversion import properties_of
from amqproxy.broker.amqp010.owners import OwningSession
from amqproxy.broker.connection.publish_checks import MAX_EXPIRATION
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.message import Message, published
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.storage.batch import DurabilityTicket

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

Queues = tuple[Queue, ...]

AT_ONCE = 64
"""Queues up to which a message is given to all in one turn."""

_AT_ONCE = AT_ONCE  # as C sees it

_SIZE = struct.Struct(">Q")


class CachedTransfer:
    """The last transfer, and where it went: that of one that is as it, for as long as nothing changes."""

    __slots__ = (
        "exchange_name",
        "generation",
        "header",
        "is_accepted",
        "method",
        "queues",
        "routing_key",
        "user_generation",
    )

    def __init__(
        self,
        method: Method,
        header: Header,
        exchange_name: str,
        routing_key: str,
        queues: Queues,
        is_accepted: bool,
        generation: int,
        user_generation: int,
    ) -> None:
        self.method = method
        self.header = header
        self.exchange_name = exchange_name
        self.routing_key = routing_key
        self.queues = queues
        self.is_accepted = is_accepted
        self.generation = generation
        self.user_generation = user_generation


class SessionPublisher:
    """Of one session. A `ProtocolError` of either protocol ends the session."""

    def __init__(self, session: OwningSession) -> None:
        self.session = session
        self.completions = session.completions
        self.vhost = session.vhost
        self.user = session.user
        self._journal = None if self.vhost.storage is None else self.vhost.storage.journal
        self._ticket = DurabilityTicket()
        self._waiting = CommandIds()
        self._quantum = self.vhost.work.quantum
        self._known: Header | None = None
        self._properties: Properties = NO_PROPERTIES
        self._content_header = b""
        self._size = 0
        self._largest = session.broker.max_message_size
        self._cached: CachedTransfer | None = None
        self._is_cacheable = False
        self.fragments = Fragments(self.vhost, session.user.name, self._largest)

    def transfer(self, assembly: Assembly, position: cython.longlong, now: float) -> cython.bint:
        """Take a message.transfer; False where it has begun, and is complete later."""
        cached = self._cached
        if cached is not None and self._is_as(cached, assembly):
            body: bytes = assembly.body
            size: cython.ulonglong = len(body)
            if size <= self._largest:
                content_header = self._content_header_of(size)
                message = published(cached.exchange_name, cached.routing_key, content_header, body, self._properties)
                if cached.is_accepted:
                    self.completions.accept(position)
                return self._give(message, cached.queues, position, now)
        return self._transfer(assembly, position, now)

    def _is_as(self, cached: CachedTransfer, assembly: Assembly) -> cython.bint:
        """Is a transfer as the one before it, but for its body, and nothing has changed since?"""
        vhost = self.vhost
        return (
            assembly.method is cached.method
            and assembly.header is cached.header
            and vhost.generation == cached.generation
            and self.user.generation == cached.user_generation
            and not vhost.is_traced
            and not vhost.events.observers
        )

    def _content_header_of(self, size: cython.ulonglong) -> bytes:
        """The content header for a body of so many bytes, with the properties that are known."""
        if size != self._size:
            known = self._content_header
            self._content_header = known[:4] + _SIZE.pack(size) + known[12:]
            self._size = size
        return self._content_header

    def _transfer(self, assembly: Assembly, position: int, now: float) -> bool:
        method = assembly.method
        self._cached = None
        destination = method.destination or ""
        header, body, earlier = assembly.header or NO_HEADER, assembly.body, None
        fragment = header.fragment
        if fragment is not None and not (fragment.first and fragment.last):
            part = self.fragments.add(destination, header, body)
            exchange = self._exchange(destination, part.routing_key)
            if not fragment.last:
                part.positions.add(range(position, position + 1))
                return True
            header, body, earlier = part.header, self.fragments.finish(destination), part.positions
        else:
            exchange = self._exchange(destination, assembly.delivery_properties.routing_key or "")
        message = self._message(exchange, header, body)
        queues = self._route(exchange, message, now)
        if not queues and method.accept_mode == AcceptMode.EXPLICIT and not self._discards(header):
            self._return(message, position, earlier)
            return True
        is_accepted = method.accept_mode == AcceptMode.EXPLICIT
        if is_accepted:
            self.completions.accept(position, earlier)
        if self._is_cacheable and queues and assembly.header is not None:
            generations = self.vhost.generation, self.user.generation
            key = message.routing_key
            self._cached = CachedTransfer(method, header, exchange.name, key, queues, is_accepted, *generations)
        return self._give(message, queues, position, now)

    def _give(self, message: Message, queues: Queues, position: cython.longlong, now: float) -> cython.bint:
        """Give a message to its queues, or to the transaction; False where it is complete later."""
        transaction = self.session.open_transaction
        if transaction is not None:
            transaction.publish(message, queues)
        elif len(queues) > _AT_ONCE or len(queues) > self._quantum.step:
            self.completions.begin(position)  # before it may be complete
            self.session.do(self._enqueueing_many(message, queues, position, now), now)
            return False
        else:
            self.enqueue(message, queues, now)
            return not self._is_waiting(position)
        return True

    def check_exchange(self, name: str) -> None:
        """`ProtocolError` where the client may not publish there, or there is no such exchange."""
        self.user.check(self.vhost.name, WRITE, "exchange", name)
        if name not in self.vhost.exchanges:
            raise NotFound(f"there is no exchange '{name}' in the virtual host '{self.vhost.name}'")

    def _exchange(self, name: str, routing_key: str) -> Exchange:
        """The exchange that a message is for, if the client may publish there."""
        vhost, user = self.vhost, self.user
        user.check(vhost.name, WRITE, "exchange", name)
        exchange = vhost.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"there is no exchange '{name}' in the virtual host '{vhost.name}'")
        if exchange.internal:
            raise NotAllowed(f"the exchange '{name}' is internal")
        if exchange.type == "topic":
            user.check_topic(vhost.name, WRITE, name, routing_key)
        return exchange

    def _message(self, exchange: Exchange, header: Header, body: bytes) -> Message:
        largest = self.session.broker.max_message_size
        if len(body) > largest:
            raise ResourceLimitExceeded(f"a message of {len(body)} bytes, where {largest} are allowed")
        if header is not self._known:
            self._known = None
            properties = properties_of(header.entries)
            self._check(properties)
            self._content_header, self._size = ContentHeader(0, properties).encode(), 0
            self._check_size(len(self._content_header))
            self._known, self._properties = header, properties
        content_header = self._content_header_of(len(body))
        delivery = header.delivery
        key = "" if delivery is None or delivery.routing_key is None else delivery.routing_key
        return published(exchange.name, key, content_header, body, self._properties)

    def _check_size(self, size: int) -> None:
        """A client of 0-9-1 has to get a header in one frame: one that is larger would end each that it is sent to."""
        largest = self.session.broker.frame_max - OVERHEAD
        if size > largest > 0:
            raise ResourceLimitExceeded(f"properties of {size} bytes in 0-9-1, where {largest} fit into a frame")

    def _check(self, properties: Properties) -> None:
        user = self.user
        if properties.user_id is not None and properties.user_id != user.name and "impersonator" not in user.tags:
            raise UnauthorizedAccess(f"the user-id is '{properties.user_id}' and the client's '{user.name}'")
        if properties.expiration is not None and int(properties.expiration) > MAX_EXPIRATION:
            raise InvalidArgument(f"a ttl of {properties.expiration} ms, where {MAX_EXPIRATION} are the most")

    def _discards(self, header: Header) -> bool:
        return header.delivery is not None and header.delivery.discard_unroutable

    def _route(self, exchange: Exchange, message: Message, now: float) -> Queues:
        vhost = self.vhost
        route = vhost.router.route(exchange, message, now)
        queues = route.queues
        is_answer = not exchange.name and message.routing_key.startswith("amq.")
        self._is_cacheable = route.is_cacheable and not route.is_delayed and not is_answer
        if vhost.is_traced:
            with vhost.events.contained("tracing failed", vhost=vhost.name):
                names = [queue.name for queue in queues] if exchange.name else [message.routing_key]
                trace = firehose.traced_publish(message, self.session.place, names)
                vhost.publish(vhost.exchanges[firehose.EXCHANGE], trace, now)
        if vhost.events.observers:
            vhost.events.report("message.published", vhost.name, message, exchange=exchange, queues=queues)
        if is_answer:
            asking = vhost.reply_consumers.get(message.routing_key)
            if asking is not None:
                asking.deliver_reply(message.routing_key, message)
        return queues

    def interrupted(self, assembly: Assembly | None) -> None:
        """The client is gone: of a message, of which no more comes, this has come beside whole transfers."""
        if assembly is None or not assembly.has_body:
            return
        with suppress(ProtocolError):  # what is malformed shows here first
            if type(assembly.method) is MessageTransfer:
                header = assembly.header or NO_HEADER
                self.fragments.add(assembly.method.destination or "", header, assembly.body)

    def _return(self, message: Message, position: int, earlier: CommandIds | None) -> None:
        """Reject a message that no queue is to have, and all transfers that it came in."""
        before = [(id_of(each.start), id_of(each.stop - 1)) for each in earlier or ()]
        ids = SequenceSet([*before, (id_of(position), id_of(position))])
        self.session.sender.send(MessageReject(ids, RejectCode.UNROUTABLE, "no queue is bound for it"))
        if self.vhost.events.observers:
            self.vhost.events.report("message.returned", self.vhost.name, message, channel=self.session)

    # --- where it goes

    def enqueue(self, message: Message, queues: Queues, now: float) -> None:
        """Give a message to its few queues."""
        if len(queues) > 1:
            self._quantum.left -= len(queues)
        refusal: Queue | None = None
        queue: Queue
        for queue in queues:
            if not queue.is_deleted and not queue.publish(message, now, self._ticket):
                refusal = queue
        message.forget_properties()
        if refusal is not None:
            raise ResourceLimitExceeded(f"{refusal} is full")

    def _enqueueing_many(
        self, message: Message, queues: Queues, position: int, now: float
    ) -> Generator[None, float, float]:
        """The same in steps, for any number of queues."""
        size = min(AT_ONCE, self._quantum.step)
        for start in range(0, len(queues), size):
            self.enqueue(message, queues[start : start + size], now)
            if self._quantum.spend(size):
                now = yield
        if not self._is_waiting(position):
            self.session.complete(position)
        return now

    def _is_waiting(self, position: cython.longlong) -> cython.bint:
        """Does the last message have to be on the disk before it is complete?"""
        if self._journal is None or not self._ticket.left:
            return False
        self.completions.begin(position)
        self._waiting.extend(position, position + 1)
        return True

    def end_turn(self) -> None:
        """Have what was transferred in this turn completed once it is safe."""
        if not self._waiting:
            return
        ticket, self._ticket = self._ticket, DurabilityTicket()
        waiting, self._waiting = self._waiting, CommandIds()
        assert self._journal is not None
        self._journal.when_safe(ticket, partial(self._safe, ticket, waiting), self.session.fail_soon)

    def _safe(self, ticket: DurabilityTicket, positions: CommandIds) -> None:
        """These are safe, which another connection's turn may have found out, or the store."""
        if ticket.is_refused:
            self.session.fail_soon()
            return
        for each in positions:
            self.session.complete_range(each)
        self.session.end_turn()
