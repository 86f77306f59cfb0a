"""Publishing on one session: transfers are checked, routed, and completed once they are safe."""

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
from amqproxy.amqp010.frame import HEADER, OVERHEAD, WHOLE_SEGMENT, Frame, decode_header
from amqproxy.amqp010.properties import NO_PROPERTIES as NO_HEADER
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp091.frame import OVERHEAD as OVERHEAD_091
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from amqproxy.broker import firehose
from amqproxy.broker.access.permissions import WRITE
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp010.fragments import Fragments
from amqproxy.broker.amqp010.header_places import content_header_places, header_places
from amqproxy.broker.amqp010.header_shape import HeaderShape, learnt
from amqproxy.broker.amqp010.message_conversion import properties_of
from amqproxy.broker.amqp010.owners import OwningSession
from amqproxy.broker.amqp010.queue_ownership import is_local
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.message import MAX_EXPIRATION, Message, published
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.storage.batch import DurabilityTicket

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.broker.amqp010.header_shape import is_alike

Queues = tuple[Queue, ...]

AT_ONCE = 64
"""Number of queues up to which a message is published to all in one turn."""

_AT_ONCE = AT_ONCE  # typed in the .pxd file
_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_WHOLE_SEGMENT = cython.declare(cython.int, WHOLE_SEGMENT)
_HEADER = cython.declare(cython.int, HEADER)

MOST = 64
MOST_BYTES = 128 * 1024
"""Limits on the number of cached transfers and their approximate memory; beyond them, the cache is cleared."""

LARGEST = 512
"""Maximum size in bytes of a header worth caching: a session takes little memory whatever its client sends."""

KNOWN_COST, DECODED_COST = 1024, 16
"""Bytes of memory that a cached transfer takes at least, and that each byte of a decoded header takes."""

_SIZE = struct.Struct(">Q")


class CachedTransfer:
    """A transfer and its route, for those with the same `command` bytes and a header of the same `shape`.

    It holds for as long as nothing changes.
    """

    __slots__ = (
        "command",
        "exchange_name",
        "generation",
        "is_accepted",
        "properties",
        "queues",
        "routing_key",
        "shape",
        "user_generation",
    )

    def __init__(
        self,
        command: bytes,
        shape: HeaderShape,
        properties: Properties | None,
        exchange_name: str,
        routing_key: str,
        queues: Queues,
        is_accepted: bool,
        generation: int,
        user_generation: int,
    ) -> None:
        self.command = command
        self.shape = shape
        self.properties = properties
        """Properties of all such transfers, if their headers have no variable fields."""
        self.exchange_name = exchange_name
        self.routing_key = routing_key
        self.queues = queues
        self.is_accepted = is_accepted
        self.generation = generation
        self.user_generation = user_generation


class SessionPublisher:
    """Publisher of one session. A `ProtocolError` of either protocol ends the session."""

    def __init__(self, session: OwningSession) -> None:
        self.session = session
        self.completions = session.completions
        self.vhost = session.vhost
        self.user = session.user
        self._journal = None if self.vhost.storage is None else self.vhost.storage.journal
        self._ticket = DurabilityTicket()
        self._waiting = CommandIds()
        self._quantum = self.vhost.work.quantum
        self.counts = MessageCounts()
        self._totals = self.vhost.counts
        self._known: dict[tuple[bytes, bytes], CachedTransfer | None] = {}
        """Cached transfers by command and by header without variable fields; None after the first of a kind."""
        self._known_bytes = 0
        self._properties: Properties = NO_PROPERTIES
        self._header: Header | None = None
        """The last header that was translated, to these properties and this content header."""
        self._content_header = b""
        self._size = 0
        self.largest = session.broker.max_message_size
        self._cached: CachedTransfer | None = None
        self._is_cacheable = self._has_no_local = False
        self.fragments = Fragments(self.vhost, session.user.name, self.largest)

    def change_user(self, user: User) -> None:
        """Publish with the rights of another login from now on; routes that the former one might use are dropped."""
        self.user = user
        self._known.clear()
        self._known_bytes = 0
        self._cached = None

    def transfer(self, assembly: Assembly, position: cython.longlong, now: float) -> cython.bint:
        """Publish a message.transfer; return False if it has begun and is complete later."""
        frames = assembly.frames
        if len(frames) > 1 and self.knows(frames[0], frames[1]):
            body: bytes = assembly.body
            if len(body) <= self.largest:
                return self.transfer_known(frames[1], body, position, now)
        return self._transfer(assembly, position, now)

    def knows(self, command: Frame, header: Frame) -> cython.bint:
        """Return whether a transfer's command and header match a cached transfer, and nothing has changed since."""
        cached = self._cached
        if cached is None or not self._is_as(cached, command, header):
            cached = self._find(command, header)
            if cached is None:
                return False
            self._cached = cached
        vhost = self.vhost
        return (
            vhost.generation == cached.generation
            and self.user.generation == cached.user_generation
            and not vhost.is_traced
            and not vhost.events.observers
        )

    def _is_as(self, cached: CachedTransfer, command: Frame, header: Frame) -> cython.bint:
        at: cython.Py_ssize_t = command._start + _OVERHEAD
        size: cython.Py_ssize_t = command._end - at
        if (
            size != len(cached.command)
            or command.flags & header.flags & _WHOLE_SEGMENT != _WHOLE_SEGMENT
            or header.kind != _HEADER
            or not is_alike(command._buffer, at, cached.command, 0, size)
        ):
            return False
        at = header._start + _OVERHEAD
        return cached.shape.matches(header._buffer, at, header._end - at)

    def _find(self, command: Frame, header: Frame) -> CachedTransfer | None:
        """Return the cached transfer that the command and the header match, if any."""
        key = self._key(command, header)
        found = None if key is None else self._known.get(key)
        return found if found is not None and self._is_as(found, command, header) else None

    def _key(self, command: Frame, header: Frame) -> tuple[bytes, bytes] | None:
        """Return the cache key; None if command or header is in parts, or too large to be worth caching."""
        if command.flags & header.flags & _WHOLE_SEGMENT != _WHOLE_SEGMENT or header.kind != _HEADER:
            return None
        if header.size > LARGEST or command.size > LARGEST:
            return None
        data = header.payload_bytes()
        return command.payload_bytes(), header_places(data).blank(data)

    def transfer_known(self, header: Frame, body: bytes, position: cython.longlong, now: float) -> cython.bint:
        """Publish the transfer that this `knows`, with its whole body, which is not too large."""
        cached = self._cached
        assert cached is not None
        content_header: bytes = cached.shape.translated(header._buffer, header._start + _OVERHEAD, len(body))
        message = published(cached.exchange_name, cached.routing_key, content_header, body, cached.properties)
        if cached.is_accepted:
            self.completions.accept(position)
        return self._give(message, cached.queues, position, now)

    def _learn(self, assembly: Assembly, message: Message, queues: Queues, *, is_accepted: bool) -> None:
        """Cache a transfer from the second of its kind on: one that never recurs would only take memory."""
        frames = assembly.frames
        key = self._key(frames[0], frames[1]) if len(frames) > 1 else None
        if key is None:
            return
        data = frames[1].payload_bytes()
        places = header_places(data)
        if len(self._known) >= MOST or self._known_bytes >= MOST_BYTES:
            self._known.clear()
            self._known_bytes = 0
        if key not in self._known:
            self._known[key] = None
            return
        known, made = self._known.get(key), message.header
        if known is not None and self._is_as(known, frames[0], frames[1]):
            shape: HeaderShape | None = known.shape
        else:
            shape = learnt(data, places, made, content_header_places(made), partial(_translated, len(message.body)))
        if shape is None:
            return
        generations = self.vhost.generation, self.user.generation
        exchange, routing_key = message.exchange, message.routing_key
        properties = None if places.is_own else message.properties
        if known is None:
            self._known_bytes += KNOWN_COST + 3 * len(data) + (0 if properties is None else DECODED_COST * len(data))
        cached = CachedTransfer(key[0], shape, properties, exchange, routing_key, queues, is_accepted, *generations)
        self._cached = self._known[key] = cached

    def _content_header_of(self, size: cython.ulonglong) -> bytes:
        """Return the content header for a body of `size` bytes, with the last translated properties."""
        if size != self._size:
            known = self._content_header
            self._content_header = known[:4] + _SIZE.pack(size) + known[12:]
            self._size = size
        return self._content_header

    def _transfer(self, assembly: Assembly, position: int, now: float) -> bool:
        method = assembly.method
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
        if self._has_no_local:
            queues = tuple(queue for queue in queues if not is_local(queue, self.session))
        is_accepted = method.accept_mode == AcceptMode.EXPLICIT
        if is_accepted:
            self.completions.accept(position, earlier)
        is_users_own = message.properties.user_id in (None, self.user.name)
        if self._is_cacheable and queues and fragment is None and is_users_own:
            self._learn(assembly, message, queues, is_accepted=is_accepted)
        return self._give(message, queues, position, now)

    def _give(self, message: Message, queues: Queues, position: cython.longlong, now: float) -> cython.bint:
        """Publish a message to its queues, or add it to the transaction; return False if it is complete later."""
        transaction = self.session.transaction
        if transaction is not None:
            transaction.publish(message, queues, self.counts)
            return True
        self._count_publish(message, queues)
        if len(queues) > _AT_ONCE or len(queues) > self._quantum.step:
            self.completions.begin(position)  # before the job can complete it
            self.session.do(self._enqueueing_many(message, queues, position, now), now)
            return False
        self.enqueue(message, queues, now)
        return not self._is_waiting(position)

    def _count_publish(self, message: Message, queues: Queues) -> None:
        """Count a publish for its exchange, its queues, this session and the virtual host."""
        mine, totals, exchange = self.counts, self._totals, self.vhost.exchanges.get(message.exchange)
        mine.published += 1
        totals.published += 1
        totals.routed += len(queues)
        if not queues:
            mine.dropped += 1
            totals.dropped += 1
        if exchange is not None:
            exchange.counts.published += 1
            exchange.counts.routed += len(queues)
        queue: Queue
        for queue in queues:
            queue.counts.published += 1

    def check_exchange(self, name: str) -> None:
        """Raise `ProtocolError` if the client may not publish to the exchange, or there is none of that name."""
        self.user.check(self.vhost.name, WRITE, "exchange", name)
        if name not in self.vhost.exchanges:
            raise NotFound(f"there is no exchange '{name}' in the virtual host '{self.vhost.name}'")

    def _exchange(self, name: str, routing_key: str) -> Exchange:
        """Return the exchange that a message is for, if the client may publish to it."""
        vhost, user = self.vhost, self.user
        user.check(vhost.name, WRITE, "exchange", name)
        exchange = vhost.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"there is no exchange '{name}' in the virtual host '{vhost.name}'")
        if exchange.internal:
            raise NotAllowed(f"the exchange '{name}' is internal")
        exchange.check_topic(user, vhost.name, WRITE, routing_key)
        return exchange

    def _message(self, exchange: Exchange, header: Header, body: bytes) -> Message:
        largest = self.session.broker.max_message_size
        if len(body) > largest:
            raise ResourceLimitExceeded(f"a message of {len(body)} bytes, where {largest} are allowed")
        if header is not self._header:
            self._header = None
            properties = properties_of(header.entries)
            self._content_header, self._size = ContentHeader(0, properties).encode(), 0
            self._check_size(len(self._content_header))
            self._header, self._properties = header, properties
        self._check(self._properties)  # for each message: the user's right to another user-id can change
        content_header = self._content_header_of(len(body))
        delivery = header.delivery
        key = "" if delivery is None or delivery.routing_key is None else delivery.routing_key
        return published(exchange.name, key, content_header, body, self._properties)

    def _check_size(self, size: int) -> None:
        """Check that a header fits into one 0-9-1 frame: a larger one would end each client that it is sent to."""
        largest = self.session.broker.frame_max - OVERHEAD_091
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
        self._has_no_local = route.has_no_local
        self._is_cacheable = route.is_cacheable and not (route.is_delayed or is_answer or route.has_no_local)
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
        """Keep the received part of a message whose client is gone, in addition to its whole transfers."""
        if assembly is None or not assembly.has_body:
            return
        with suppress(ProtocolError):  # a malformed part is found only here
            if type(assembly.method) is MessageTransfer:
                header = assembly.header or NO_HEADER
                self.fragments.add(assembly.method.destination or "", header, assembly.body)

    def _return(self, message: Message, position: int, earlier: CommandIds | None) -> None:
        """Reject an unroutable message, with all transfers that it came in."""
        for counts in (self.counts, self._totals):
            counts.published += 1
            counts.returned += 1
        before = [(id_of(each.start), id_of(each.stop - 1)) for each in earlier or ()]
        ids = SequenceSet([*before, (id_of(position), id_of(position))])
        self.session.sender.send(MessageReject(ids, RejectCode.UNROUTABLE, "no queue is bound for it"))
        if self.vhost.events.observers:
            self.vhost.events.report("message.returned", self.vhost.name, message, channel=self.session)

    # --- enqueueing

    def enqueue(self, message: Message, queues: Queues, now: float) -> None:
        """Publish a message to a few queues."""
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
        """Publish a message to any number of queues in steps, and complete its transfer."""
        size = min(AT_ONCE, self._quantum.step)
        for start in range(0, len(queues), size):
            self.enqueue(message, queues[start : start + size], now)
            if self._quantum.spend(size):
                now = yield
        if not self._is_waiting(position):
            self.session.complete(position)
        return now

    def _is_waiting(self, position: cython.longlong) -> cython.bint:
        """Return whether the last message has to be on the disk before its transfer is complete."""
        if self._journal is None or not self._ticket.left:
            return False
        self.completions.begin(position)
        self._waiting.extend(position, position + 1)
        return True

    def end_turn(self) -> None:
        """Complete the transfers of this turn once they are safe."""
        if not self._waiting:
            return
        ticket, self._ticket = self._ticket, DurabilityTicket()
        waiting, self._waiting = self._waiting, CommandIds()
        assert self._journal is not None
        self._journal.when_safe(ticket, partial(self._safe, ticket, waiting), self.session.fail_soon)

    def _safe(self, ticket: DurabilityTicket, positions: CommandIds) -> None:
        """Complete transfers that are safe, as found out by another connection's turn or by the store."""
        if ticket.is_refused:
            self.session.fail_soon()
            return
        for each in positions:
            self.session.complete_range(each)
        self.session.end_turn()


def _translated(size: int, header: bytes) -> bytes:
    """Return the content header for a header segment and a body of `size` bytes."""
    return ContentHeader(size, properties_of(decode_header(header).entries)).encode()
