"""Messages that the management API publishes, and gets from queues."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Sequence
from typing import Annotated, Any, Literal

import msgspec

from amqproxy.amqp091.errors import AccessRefused
from amqproxy.amqp091.properties import Properties
from amqproxy.broker.access.permissions import READ, WRITE
from amqproxy.broker.amqp091 import publish_checks
from amqproxy.broker.amqp091.publisher import AT_ONCE
from amqproxy.broker.arguments import check_short
from amqproxy.broker.definitions.definitions_json import definition_value
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.message import Message
from amqproxy.broker.queues.consumer import QueueEntry
from amqproxy.broker.queues.paged_bodies import whole
from amqproxy.broker.queues.paged_messages import UNREADABLE
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Quantum
from amqproxy.control.changes.access_changes import Answer, Change
from amqproxy.control.changes.actor import Actor
from amqproxy.control.request_error import RequestError

FRAME_OVERHEAD = 8
"""Bytes of a frame besides its payload."""

MOST_GOT = 1000
"""Most messages that one request gets."""

MOST_GOT_BYTES = 8 * 1024 * 1024
"""Bytes of encoded messages, or of bodies read from the disk, after which no further message is got."""

MOST_ANSWERED = 56 * 1024 * 1024
"""Most bytes of encoded messages in one response: below the 64 MiB that clients of the control socket accept."""


class Publish(Change, frozen=True, tag="publish"):
    """Publish a message whose `body` is in base64."""

    vhost: str
    exchange: str
    routing_key: str
    body: str
    properties: dict[str, Any] = msgspec.field(default_factory=dict)

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        actor.check(vhost, WRITE, "exchange", self.exchange)
        exchange = vhost.exchange(self.exchange)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'")
        check_short("the routing key", self.routing_key)
        properties = publish_checks.checked(_properties(actor, self.properties), actor.user, vhost.profile)
        more_keys = () if properties.headers is None else publish_checks.more_keys(properties.headers)
        if more_keys:
            properties = publish_checks.without_bcc(properties)
        for key in (self.routing_key, *more_keys):
            exchange.check_topic(actor.user, vhost.name, WRITE, key)
        body = b64decode(self.body)
        if len(body) > actor.broker.max_message_size:
            raise RequestError("invalid", f"a message has {actor.broker.max_message_size} bytes at most")
        message = Message.made(self.exchange, self.routing_key, properties, body, more_keys)
        most = actor.broker.frame_max - FRAME_OVERHEAD
        if len(message.header) > most > 0:
            # Its consumers could not receive it: a content header is one frame.
            raise RequestError("invalid", f"properties have {most} bytes at most, not {len(message.header)}")
        queues = vhost.router.route(exchange, message, actor.now).queues
        enqueueing = Enqueueing(queues, message)
        _count_publish(vhost, exchange, queues)
        if actor.unfinished is None or len(queues) <= AT_ONCE:
            enqueueing.add(queues, actor.now)
            enqueueing.check()
        else:
            actor.unfinished.append(enqueueing)
            actor.broker.work.do(enqueueing.steps(vhost.work.quantum, actor.now), actor.now)
        return {"routed": bool(queues)}


class Enqueueing:
    """A message on its way to many queues."""

    def __init__(self, queues: Sequence[Queue], message: Message) -> None:
        self._queues = queues
        self._message = message
        self._is_taken = True
        self.is_done = False
        self.on_done: Callable[[], None] = lambda: None

    def add(self, queues: Sequence[Queue], now: float) -> None:
        """Add the message to some of the queues."""
        for queue in queues:
            if not queue.is_deleted and not queue.publish(self._message, now):
                self._is_taken = False

    def steps(self, quantum: Quantum, now: float) -> Generator[None, float, None]:
        """Add the message to all queues, in steps."""
        size = min(AT_ONCE, quantum.step)
        try:
            for start in range(0, len(self._queues), size):
                self.add(self._queues[start : start + size], now)
                if quantum.spend(size):
                    now = yield
        finally:
            self.is_done = True
            self.on_done()

    def check(self) -> None:
        """Raise `RequestError` if a queue has rejected the message."""
        if not self._is_taken:
            raise RequestError("rejected", "Unable to publish message. Check queue limits.")


def _count_publish(vhost: VirtualHost, exchange: Exchange, queues: Sequence[Queue]) -> None:
    vhost.counts.published += 1
    vhost.counts.routed += len(queues)
    vhost.counts.dropped += not queues
    exchange.counts.published += 1
    exchange.counts.routed += len(queues)
    for queue in queues:
        queue.counts.published += 1


def _properties(actor: Actor, given: dict[str, Any]) -> Properties:
    known = {name: value for name, value in given.items() if name in Properties.__struct_fields__}
    headers = known.pop("headers", None)
    if not isinstance(headers, dict | None):
        raise RequestError("invalid", "headers: not an object")
    try:
        found = msgspec.convert(known, _Scalars)
    except msgspec.ValidationError as error:
        raise RequestError("invalid", f"invalid properties: {error}") from None
    values = {name: value for name, value in msgspec.structs.asdict(found).items() if value is not None}
    for name, value in values.items():
        if isinstance(value, str):
            check_short(name, value)
    return Properties(**values, headers=None if headers is None else actor.table("headers", headers))


Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]


class _Scalars(msgspec.Struct):
    """Properties but for the headers."""

    content_type: str | None = None
    content_encoding: str | None = None
    delivery_mode: Byte | None = None
    priority: Byte | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


class Get(Change, frozen=True, tag="get"):
    """Get messages from a queue as basic.get does, and settle them all: each with its body in base64.

    `outcome` is `ack`, `reject` or `requeue`.
    """

    vhost: str
    queue: str
    count: Annotated[int, msgspec.Meta(ge=0)]
    outcome: Literal["ack", "reject", "requeue"]
    truncate: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        actor.check(vhost, READ, "queue", self.queue)
        queue = vhost.queue(self.queue)
        held: list[QueueEntry] = []
        try:
            shown = self._shown(queue, held, actor.now)
            self._count(vhost, queue, held)
        except BaseException as error:
            # A message that nobody has received stays: even those to be acknowledged are put back.
            queue.release(held, actor.now)
            if isinstance(error, UNREADABLE):
                raise RequestError("invalid", f"a message cannot be read from the disk: {error}") from None
            raise
        {"ack": queue.ack, "reject": queue.reject, "requeue": queue.requeue}[self.outcome](held, actor.now)
        return {"messages": shown}

    def _count(self, vhost: VirtualHost, queue: Queue, entries: Sequence[QueueEntry]) -> None:
        for counts in (vhost.counts, queue.counts):
            counts.got += len(entries)
            counts.got_empty += not entries
            counts.redelivered += sum(entry.is_redelivered for entry in entries)
            if self.outcome == "ack":
                counts.acked += len(entries)

    def _shown(self, queue: Queue, held: list[QueueEntry], now: float) -> list[Answer]:
        """Return the messages as far as the response may hold them, with their entries in `held`."""
        shown: list[Answer] = []
        size = read = 0
        while len(held) < min(self.count, MOST_GOT) and max(size, read) < MOST_GOT_BYTES:
            entry = queue.get(now)
            if entry is None:
                break
            queue.hold(entry, None)
            held.append(entry)
            message = whole(entry)
            if message is not entry.message:
                read += len(message.body)
            body = message.body if self.truncate is None else message.body[: self.truncate]
            row_size = len(body) * 4 // 3
            if row_size <= MOST_ANSWERED:
                row = self._row(entry, message, body, queue.message_count)
                row_size = len(msgspec.json.encode(row))
            if size + row_size > MOST_ANSWERED:
                if not shown:
                    raise RequestError("invalid", f"a message has {len(message.body)} bytes: get less with `truncate`")
                queue.release([held.pop()], now)
                break
            shown.append(row)
            size += row_size
        return shown

    def _row(self, entry: QueueEntry, message: Message, body: bytes, left: int) -> Answer:
        return {
            "body": b64encode(body).decode(),
            "payload_bytes": len(message.body),
            "redelivered": entry.is_redelivered,
            "exchange": definition_value(message.exchange),
            "routing_key": definition_value(message.routing_key),
            "message_count": left,
            "properties": definition_value(message.properties.present()),
        }
