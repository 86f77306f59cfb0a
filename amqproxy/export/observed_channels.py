"""The channels of an AsyncAPI document as observed in captures: senders and receivers of exchanges and queues.

A channel in that sense is a routing key of an exchange, or a queue. All tables are bounded; messages without room are
counted in `left_out`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from amqproxy.amqp091.methods import (
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import DECODED, NAME
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.bodies.addon_bodies import decoded_body
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.conversion.client_name import given_name
from amqproxy.export.examples import example_of
from amqproxy.export.name_family import NameFamily
from amqproxy.export.payload_schema import NodeBudget, PayloadSchema
from amqproxy.rules.matching.generated_names import Shape, shape_of
from amqproxy.rules.matching.operations import DIRECT_REPLY_TO
from amqproxy.taps.dialects import json_form
from amqproxy.taps.message_recorder import CommandSelector, SelectorOf
from amqproxy.taps.record import encoded, json_value
from amqproxy.taps.session_trace import SessionTrace
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import (
    ConnectionOpened,
    MessageDelivered,
    MessageProperties,
    MessagePublished,
    Method,
    RequestAnswered,
    RequestSent,
    TraceEvent,
    encoded_headers,
)

MAX_CHANNELS = 500
"""Exchanges with routing keys, and queues, that are distinguished."""

MAX_SHAPES = 20
"""Kinds of messages of one channel, distinguished by content type, content encoding and `type`."""

MAX_OPERATIONS = 50
"""Users and applications that send to one channel, or receive from it."""

MAX_SAMPLES = 1000
"""Bodies of one kind of message from which its schema is learnt."""

MAX_BINDINGS = 50
"""Listed bindings of one queue."""

MAX_OBJECTS = 5000
"""Exchanges and queues whose declarations are kept."""

MAX_SERVERS = 50
"""Listed brokers of one channel."""

MAX_NODES = 200_000
"""Nodes in the schemas of all messages."""

MAX_EXAMPLE = 4096
"""Bytes of the largest body, or headers, used as an example."""

KEPT_BODY = 64 * 1024
"""Bytes of the largest body that is inspected."""


_PROPERTIES = Properties.__struct_fields__
"""Names of the properties, for messages of every protocol."""


class Address(msgspec.Struct, frozen=True, order=True):
    """A destination of messages: an exchange, or if `is_queue` the queue that is their routing key."""

    vhost: str
    is_queue: bool
    exchange: str = ""


def _types_of(properties: MessageProperties) -> dict[str, str | None]:
    return {"content_type": properties.content_type, "content_encoding": properties.content_encoding}


def _is_said_to_be_json(properties: MessageProperties) -> bool:
    return "json" in (properties.content_type or "").casefold()


class MessageShape:
    """One kind of message on a channel; its schemas share the budget.

    `payload` is the schema of bodies if all of them `is_json`, or `is_decoded` by an addon to such values.
    """

    def __init__(self, budget: NodeBudget) -> None:
        self._budget = budget
        self.count = 0
        self.payload = PayloadSchema(budget)
        self.headers = PayloadSchema(budget)
        self.is_json = True
        self.is_decoded = False
        self.is_text = True
        self.unread = 0
        self.properties: Counter[str] = Counter()
        self.example: tuple[Any, Any] | None = None

    def learn(self, properties: MessageProperties, size: int, body: bytes) -> None:
        """Learn from a message; an incomplete or too large body is not inspected."""
        self.count += 1
        self.properties.update(each for each in _PROPERTIES if getattr(properties, each) is not None)
        headers: dict[str, Any] = {}
        given = properties.headers
        if self.headers.count < MAX_SAMPLES:
            if given is not None:
                headers = _json(given)
            self.headers.learn(headers)
        if len(body) != size:
            self.unread += 1
            return
        if self.payload.count >= MAX_SAMPLES:
            return
        if not body:
            return
        value = self._value(body, properties)
        if self.example is None and size <= MAX_EXAMPLE and len(encoded_headers(properties)) <= MAX_EXAMPLE:
            self.example = (example_of(headers), None if value is None else example_of(value))

    def _value(self, body: bytes, properties: MessageProperties) -> Any:
        """Return the body as JSON, as an addon reads it, or as text; None if nothing does.

        After one body that is not JSON, none is taken as JSON. A number or a word is a text, unless its content type
        says otherwise.
        """
        if self.is_json:
            decoded = decoded_body(body, _types_of(properties))
            try:
                value = msgspec.json.decode(body) if decoded is None else decoded["value"]
                is_json = _is_said_to_be_json(properties) or isinstance(value, dict | list)
            except (msgspec.DecodeError, RecursionError):
                is_json = False
            if is_json:
                self.is_decoded |= decoded is not None
                self.payload.learn(value)
                return value
            self.is_json = False
            self.payload = PayloadSchema(self._budget)
        self.payload.count += 1
        try:
            return body.decode()
        except UnicodeDecodeError:
            self.is_text = False
            return None

    def add(self, other: MessageShape) -> None:
        self.count += other.count
        self.headers.add(other.headers)
        self.is_decoded |= other.is_decoded
        self.is_json, self.is_text = self.is_json and other.is_json, self.is_text and other.is_text
        if self.is_json:
            self.payload.add(other.payload)
        self.unread += other.unread
        self.properties.update(other.properties)
        self.example = self.example or other.example


class Application(msgspec.Struct, frozen=True, order=True):
    """A sender or receiver: the user, and the name that the client gives itself."""

    user: str
    name: str


class OperationFacts:
    """One application's use of a channel, and the kinds of its messages."""

    def __init__(self) -> None:
        self.count = 0
        self.messages: set[tuple[str, str, str]] = set()
        self.delivery_modes: set[int | None] = set()
        self.priorities: set[int | None] = set()
        self.mandatory: set[bool] = set()
        self.acks: set[bool] = set()
        self.has_timestamp = True
        self.asks_for_replies = False

    def add(self, other: OperationFacts) -> None:
        self.count += other.count
        for name in ("messages", "delivery_modes", "priorities", "mandatory", "acks"):
            getattr(self, name).update(getattr(other, name))
        self.has_timestamp = self.has_timestamp and other.has_timestamp
        self.asks_for_replies = self.asks_for_replies or other.asks_for_replies


class ChannelFacts:
    """Facts about one channel.

    Operations are keyed by action, "send" or "receive", and application; servers include the protocol that was spoken.
    """

    def __init__(self) -> None:
        self.messages: dict[tuple[str, str, str], MessageShape] = {}
        self.operations: dict[tuple[str, Application], OperationFacts] = {}
        self.bindings: dict[str, dict[str, Any]] = {}
        self.declared: dict[str, set[bool]] = {}
        self.servers: set[tuple[str, str]] = set()
        self.left_out = 0

    def add(self, other: ChannelFacts) -> None:
        for kind, shape in other.messages.items():
            self._into(self.messages, kind, shape, MAX_SHAPES)
        for who, facts in other.operations.items():
            self._into(self.operations, who, facts, MAX_OPERATIONS)
        for key, binding in other.bindings.items():
            self.bind(key, binding)
        for name, values in other.declared.items():
            self.declared.setdefault(name, set()).update(values)
        self.servers |= other.servers
        self.left_out += other.left_out

    def _into(self, table: dict[Any, Any], key: Any, value: Any, most: int) -> None:
        if key in table:
            table[key].add(value)
        elif len(table) < most:
            table[key] = value
        else:
            self.left_out += value.count

    def bind(self, key: str, binding: dict[str, Any]) -> None:
        if len(self.bindings) < MAX_BINDINGS:
            self.bindings[key] = binding


class ObservedChannels:
    """Collects the channels of decoded captures.

    With `selector_of`, only the messages that it selects count, and only at the times and on the channels for which
    `shows` holds. Declarations and bindings are taken from everywhere.
    """

    def __init__(
        self,
        selector_of: SelectorOf | None = None,
        shows: Callable[[int, int | None], bool] = lambda ts_ns, channel: True,
    ) -> None:
        self.shows = shows
        self.exchanges: dict[tuple[str, str], ExchangeDeclare] = {}
        self.left_out = 0
        self.messages = 0
        self.budget = NodeBudget(MAX_NODES)
        self.connections = 0
        self._selector_of = selector_of
        self._queues: dict[tuple[str, str], QueueDeclare] = {}
        self._families: dict[tuple[Address, Shape], NameFamily[ChannelFacts]] = {}
        self._observed: dict[int, _Observed] = {}

    def feed(self, decoded: Decoded) -> None:
        """Process the next decoded item."""
        observed = self._observed.get(decoded.stream)
        if observed is None:
            if isinstance(decoded, StreamEnded) or (
                isinstance(decoded, DecodedProtocolHeader) and decoded.protocol not in DECODED
            ):
                return
            selector = self._selector_of(decoded.stream, decoded.connection) if self._selector_of else None
            observed = self._observed[decoded.stream] = _Observed(self, decoded.connection, selector)
            self.connections += 1
        observed.feed(decoded)
        if isinstance(decoded, StreamEnded):
            del self._observed[decoded.stream]

    def channels(self) -> Iterable[tuple[Address, Shape, ChannelFacts]]:
        """Return all channels that were used, ordered by address."""
        found = [
            (address, shapes[0], facts)
            for (address, _), family in self._families.items()
            for shapes, facts in family.items()
        ]
        return sorted(found, key=lambda each: (each[0], [str(part) for part in each[1]]))

    def channel(self, address: Address, name: str) -> ChannelFacts | None:
        """Return the facts about a routing key or a queue; None if the table is full."""
        exact, loose = shape_of(name, certain=True), shape_of(name, certain=False)
        family = self._families.get((address, loose))
        if family is None:
            if len(self._families) >= MAX_CHANNELS:
                return None
            family = self._families[address, loose] = NameFamily(ChannelFacts)
        return family.find((exact,), (loose,))

    def queue(self, vhost: str, name: str) -> ChannelFacts | None:
        """Return the facts about a queue, including its declaration."""
        facts = self.channel(Address(vhost, is_queue=True), name)
        declare = self._queues.get((vhost, name))
        if facts is not None and declare is not None:
            for key in ("durable", "exclusive", "auto_delete"):
                facts.declared.setdefault(key, set()).add(getattr(declare, key))
        return facts

    def declare(self, vhost: str, request: ExchangeDeclare | QueueDeclare, name: str) -> None:
        """Record the declaration of an exchange or a queue."""
        if request.passive or not name:
            return
        table: dict[tuple[str, str], Any] = self.exchanges if isinstance(request, ExchangeDeclare) else self._queues
        if len(table) < MAX_OBJECTS:
            table[vhost, name] = request
        if isinstance(request, QueueDeclare):
            self.queue(vhost, name)


class _Observed:
    """An open connection."""

    def __init__(self, channels: ObservedChannels, connection: str, selector: CommandSelector | None) -> None:
        self._all = channels
        self._server = connection.partition("-")[2]
        self._protocol = NAME
        self._trace = SessionTrace(body=KEPT_BODY, is_ordered=False)
        self._selector = selector
        self._vhost = "/"
        self._who = Application("", "")
        self._last_queues: dict[int, str] = {}
        self._tags: tuple[str, ...] = ()

    def feed(self, decoded: Decoded) -> None:
        events: list[TraceEvent] = []
        match decoded:
            case DecodedFrames():
                self._protocol = decoded.protocol
                sender = Peer(decoded.sender)
                if self._selector is not None:
                    for frame in decoded.frames:
                        self._selector.learn(sender, frame)
                self._tags = decoded.note.tags
                events = self._trace.restore(decoded.snapshot)
                events += self._trace.feed_noted(sender, decoded.frames, decoded.ts_ns, decoded.note)
            case DecodedProtocolHeader():
                if decoded.sender == CLIENT:
                    self._trace.feed_protocol_header(decoded.ts_ns)
            case SkippedBytes():
                events = self._trace.gap(
                    Peer(decoded.sender), decoded.ts_ns, decoded.reason, is_other_whole=decoded.is_other_whole
                )
            case StreamEnded():
                events = self._trace.end(decoded.ts_ns, decoded.reason)
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)

    def _on_opened(self, event: ConnectionOpened) -> None:
        properties = event.client_properties or {}
        product = properties.get("product")
        name = given_name(properties) or (product if isinstance(product, str) else "")
        self._vhost, self._who = _text(event.virtual_host or "/"), Application(_text(event.user or ""), name)

    def _on_answered(self, event: RequestAnswered) -> None:
        if event.request is None:
            return
        if isinstance(event.reply, QueueDeclareOk):
            self._last_queues[event.channel] = event.reply.queue
        self._carry_out(event.channel, event.request)

    def _on_sent(self, event: RequestSent) -> None:
        if isinstance(event.request, QueueDeclare):
            self._last_queues[event.channel] = event.request.queue
        self._carry_out(event.channel, event.request)

    def _carry_out(self, channel: int, request: Method) -> None:
        asked = equivalent(request)
        match asked:
            case ExchangeDeclare():
                self._all.declare(self._vhost, asked, asked.exchange)
            case QueueDeclare():
                self._all.declare(self._vhost, asked, asked.queue or self._last_queues.get(channel, ""))
            case QueueBind():
                given = getattr(request, "arguments", None)
                self._bind(asked, asked.queue or self._last_queues.get(channel, ""), _json(given or {}))
            case _:
                pass

    def _bind(self, request: QueueBind, queue: str, arguments: Any) -> None:
        facts = self._all.queue(self._vhost, queue) if queue else None
        if facts is not None:
            binding: dict[str, Any] = {"exchange": _text(request.exchange), "routingKey": _text(request.routing_key)}
            if arguments:
                binding["arguments"] = example_of(arguments)
            facts.bind(msgspec.json.encode(binding, order="sorted").decode(), binding)

    def _on_published(self, event: MessagePublished) -> None:
        if event.size is None or not self._selects(CLIENT, event):
            return
        method = event.method
        if method.exchange:
            facts = self._all.channel(Address(self._vhost, False, method.exchange), method.routing_key)
        else:
            facts = self._all.queue(self._vhost, _queue(method.routing_key))
        operation = self._learn(facts, "send", event, event.size)
        if operation is not None:
            operation.mandatory.add(method.mandatory)

    def _on_delivered(self, event: MessageDelivered) -> None:
        if not self._selects(SERVER, event):
            return
        method = event.method
        if event.queue:
            facts = self._all.queue(self._vhost, _queue(event.queue))
        else:
            facts = self._all.channel(Address(self._vhost, False, method.exchange), method.routing_key)
        operation = self._learn(facts, "receive", event, event.size)
        if operation is not None and event.awaits is not None:
            operation.acks.add(event.awaits)

    def _selects(self, sender: Peer, event: MessagePublished | MessageDelivered) -> bool:
        if not self._all.shows(event.ts_ns, event.channel):
            return False
        return self._selector is None or self._selector.selects(
            sender,
            event.channel,
            event.method,
            event.properties,
            event.size or 0,
            event.body,
            ts_ns=event.ts_ns,
            tags=self._tags,
        )

    def _learn(
        self, facts: ChannelFacts | None, action: str, event: MessagePublished | MessageDelivered, size: int
    ) -> OperationFacts | None:
        self._all.messages += 1
        if facts is None:
            self._all.left_out += 1
            return None
        if len(facts.servers) < MAX_SERVERS:
            facts.servers.add((self._server, self._protocol))
        properties = event.properties
        kind = tuple(
            _text(each or "") for each in (properties.content_type, properties.content_encoding, properties.type)
        )
        shape = facts.messages.get(kind)  # type: ignore[arg-type]
        operation = facts.operations.get((action, self._who))
        if (shape is None and len(facts.messages) >= MAX_SHAPES) or (
            operation is None and len(facts.operations) >= MAX_OPERATIONS
        ):
            facts.left_out += 1
            return None
        if shape is None:
            shape = facts.messages[kind] = MessageShape(self._all.budget)  # type: ignore[index]
        if operation is None:
            operation = facts.operations[action, self._who] = OperationFacts()
        shape.learn(properties, size, event.body)
        operation.count += 1
        operation.messages.add(kind)  # type: ignore[arg-type]
        operation.delivery_modes.add(properties.delivery_mode)
        operation.priorities.add(properties.priority)
        operation.has_timestamp = operation.has_timestamp and properties.timestamp is not None
        operation.asks_for_replies = operation.asks_for_replies or bool(properties.reply_to)
        return operation


def _queue(name: str) -> str:
    """Return the queue, or the pseudo-queue of all direct replies."""
    return DIRECT_REPLY_TO if name.startswith(DIRECT_REPLY_TO) else name


def _json(table: Any) -> Any:
    """Return a table of headers or arguments as decoded JSON."""
    return msgspec.json.decode(encoded(json_form(table)))


def _text(name: str) -> str:
    """Return a name in a form that JSON can hold."""
    shown = json_value(name)
    return shown if isinstance(shown, str) else name.encode("utf-8", "backslashreplace").decode()


_HANDLERS: dict[type[Any], Callable[[_Observed, Any], None]] = {
    ConnectionOpened: _Observed._on_opened,
    MessageDelivered: _Observed._on_delivered,
    MessagePublished: _Observed._on_published,
    RequestAnswered: _Observed._on_answered,
    RequestSent: _Observed._on_sent,
}
