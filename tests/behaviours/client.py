"""A small blocking AMQP client: it shows all that it receives, in order, and never asks twice.

A `Client` is a connection, a `Channel` one of its channels, channel 0 included. What comes unexpected stays
in the channel's inbox until it is asked for.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from amqproxy.amqp091.methods import (
    BY_NAME,
    METHODS,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.wire import Array, StructDecoder, Table

M = TypeVar("M", bound=Method)

TIMEOUT = 15.0
"""Seconds without an answer after which a test has failed."""

HEADER = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME, HEADER_FRAME, BODY_FRAME, HEARTBEAT_FRAME = 1, 2, 3, 8
FRAME_MAX = 131072

CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Received(NamedTuple):
    """One method as it came, with its content if it carries one."""

    method: Any
    properties: Properties
    body: bytes

    @property
    def headers(self) -> dict[str, Any]:
        """The message's headers, tables and arrays made plain."""
        return plain(self.properties.headers or {})  # type: ignore[no-any-return]


class Closed(Exception):
    """The broker closed the channel or the connection; as text: `channel 404 queue.declare NOT_FOUND - …`."""

    def __init__(self, method: ChannelClose | ConnectionClose) -> None:
        scope = "channel" if isinstance(method, ChannelClose) else "connection"
        number = method.failing_class_id << 16 | method.failing_method_id
        failing = METHODS[number].name if number in METHODS else f"{number >> 16}.{number & 0xFFFF}"
        super().__init__(f"{scope} {method.reply_code} {failing} {method.reply_text}")
        self.method = method


class Gone(Exception):
    """The broker closed the socket, and sent nothing before."""


def plain(value: Any) -> Any:
    """Tables as dictionaries, arrays as lists."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, Array)):
        return [plain(each) for each in value]
    return value


def until(condition: Callable[[], object], what: str, deadline: float = TIMEOUT) -> Any:
    """The first truthy answer of `condition`: for what a broker does in its own time."""
    end = time.monotonic() + deadline
    while not (answer := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {deadline:g} s")
        time.sleep(0.005)
    return answer


def frame(kind: int, channel: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def login(user: str, password: str) -> bytes:
    """The response of SASL's PLAIN."""
    return b"\0" + user.encode() + b"\0" + password.encode()


class Client:
    """A connection. Made bare: `open` or the single steps take it from there."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.stream = socket.create_connection((host, port), timeout=TIMEOUT)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame_max = FRAME_MAX
        self.inboxes: dict[int, deque[Received]] = {}
        self.partial: dict[int, tuple[Any, ContentHeader | None, list[bytes]]] = {}
        self.received = bytearray()
        self.unsent: bytearray | None = None
        self.closed: Closed | None = None
        self.zero = Channel(self, 0)
        self.server_properties: dict[str, Any] = {}

    # --- the handshake

    def open(
        self,
        vhost: str = "/",
        user: str = "guest",
        password: str = "guest",
        *,
        capabilities: Mapping[str, bool] = CAPABILITIES,
        channel_max: int = 0,
        frame_max: int = FRAME_MAX,
        heartbeat: int = 0,
    ) -> Client:
        """All of it, to connection.open-ok. Limits of 0 are the broker's own."""
        self.greet()
        self.start_ok(response=login(user, password), capabilities=capabilities)
        tune = self.zero.expect(ConnectionTune).method
        self.frame_max = frame_max
        self.zero.send(ConnectionTuneOk(channel_max or tune.channel_max, frame_max, heartbeat))
        self.zero.call(ConnectionOpen(vhost))
        return self

    def greet(self, header: bytes = HEADER) -> ConnectionStart:
        self.stream.sendall(header)
        start: ConnectionStart = self.zero.expect(ConnectionStart).method
        self.server_properties = plain(start.server_properties)
        return start

    def start_ok(
        self,
        response: bytes,
        mechanism: str = "PLAIN",
        *,
        capabilities: Mapping[str, bool] = CAPABILITIES,
        locale: str = "en_US",
    ) -> None:
        properties = Table({"product": "behaviours", "capabilities": dict(capabilities)})
        self.zero.send(ConnectionStartOk(properties, mechanism, response, locale))

    # --- its life

    def channel(self, number: int = 0) -> Channel:
        """A channel, opened; the next free number unless one is given."""
        number = number or max(self.inboxes) + 1
        channel = Channel(self, number)
        channel.call(ChannelOpen())
        return channel

    def close(self) -> None:
        """In good order where it is still open; the socket in any case."""
        try:
            if self.closed is None:
                self.zero.call(ConnectionClose(200, "bye"))
        except (OSError, Gone, Closed, AssertionError):
            pass
        finally:
            self.stream.close()

    def abandon(self) -> None:
        """Close the socket without a close method."""
        self.stream.close()

    def is_cut(self) -> bool:
        """Whether the broker closes the socket without a further word, on whatever channel."""
        try:
            self.read_frame()
        except (Gone, ConnectionError):
            return True
        return False

    def ending(self) -> str:
        """How the broker ends the socket, whatever it sends before: "reset", or "closed" in good order."""
        try:
            while self.stream.recv(65536):
                pass
        except ConnectionResetError:
            return "reset"
        return "closed"

    # --- bytes

    def send_bytes(self, data: bytes) -> None:
        if self.unsent is None:
            self.stream.sendall(data)
        else:
            self.unsent += data

    @contextmanager
    def one_write(self) -> Iterator[None]:
        """All that is sent meanwhile leaves together at the end: the broker has it in one read."""
        self.unsent = bytearray()
        yield
        data, self.unsent = self.unsent, None
        self.stream.sendall(data)

    def write(self, channel: int, method: Method) -> None:
        self.send_bytes(frame(METHOD_FRAME, channel, method.encode()))

    def read_frame(self) -> tuple[int, int, bytes]:
        """Kind, channel, payload."""
        while len(self.received) < 7 or len(self.received) < 8 + int.from_bytes(self.received[3:7]):
            if self.received[:4] == b"AMQP":
                raise Gone(bytes(self.received))
            try:
                data = self.stream.recv(65536)
            except TimeoutError:
                raise AssertionError("the broker sent nothing more") from None
            except ConnectionResetError:
                data = b""
            if not data:
                raise Gone
            self.received += data
        kind, channel, size = struct.unpack_from(">BHI", self.received)
        payload = bytes(self.received[7 : 7 + size])
        assert self.received[7 + size] == 0xCE
        del self.received[: 8 + size]
        return kind, channel, payload

    def pump(self) -> None:
        """Read one frame, and put the command that it completes into its channel's inbox."""
        if self.closed:
            raise self.closed
        kind, number, payload = self.read_frame()
        if kind == HEARTBEAT_FRAME:
            return
        if kind == METHOD_FRAME:
            assert number not in self.partial, f"a method inside the content on channel {number}"
            cls = METHODS[struct.unpack_from(">I", payload)[0]]
            method = StructDecoder(cls, cls.layout).of_fields(payload, 4, len(payload))
            if cls.carries_content:
                self.partial[number] = (method, None, [])
            else:
                self.file(number, Received(method, Properties(), b""))
            return
        method, header, body = self.partial[number]
        if kind == HEADER_FRAME:
            assert header is None
            properties = PROPERTIES.of_flagged(payload, 12, len(payload))
            header = ContentHeader(int.from_bytes(payload[4:12]), properties)
            self.partial[number] = (method, header, body)
        else:
            body.append(payload)
        assert header is not None
        if sum(map(len, body)) == header.body_size:
            del self.partial[number]
            self.file(number, Received(method, header.properties, b"".join(body)))

    def file(self, number: int, received: Received) -> None:
        """Put a whole command where it belongs; closes are agreed to at once."""
        method = received.method
        if isinstance(method, ConnectionClose):
            self.closed = Closed(method)
            self.write(0, ConnectionCloseOk())
        else:
            if isinstance(method, ChannelClose):
                self.write(number, ChannelCloseOk())
            self.inboxes.setdefault(number, deque()).append(received)


class Channel:
    """One channel of a client."""

    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number
        client.inboxes[number] = deque()

    @property
    def inbox(self) -> deque[Received]:
        return self.client.inboxes[self.number]

    # --- what goes out

    def send(self, method: Method, body: bytes = b"", **properties: Any) -> None:
        """A method, with its content where it carries one. It waits for nothing."""
        data = frame(METHOD_FRAME, self.number, method.encode())
        if method.carries_content:
            if isinstance(properties.get("headers"), Mapping):
                properties["headers"] = Table(properties["headers"])
            header = ContentHeader(len(body), Properties(**properties))
            data += frame(HEADER_FRAME, self.number, header.encode())
            step = self.client.frame_max - 8
            for start in range(0, len(body), step):
                data += frame(BODY_FRAME, self.number, body[start : start + step])
        self.client.send_bytes(data)

    def publish(
        self,
        exchange: str,
        key: str,
        body: bytes = b"",
        *,
        mandatory: bool = False,
        immediate: bool = False,
        **properties: Any,
    ) -> None:
        self.send(BasicPublish(0, exchange, key, mandatory, immediate), body, **properties)

    def call(self, method: Method) -> Any:
        """Send a method and return its answer; what comes before the answer stays in the inbox."""
        answers: tuple[type[Method], ...] = (BY_NAME[f"{method.name}-ok"],)
        if isinstance(method, BasicGet):
            answers = (BasicGetOk, BasicGetEmpty)
        self.send(method)
        return self.wait_for(*answers).method

    # --- what comes in

    def next(self) -> Received:
        """Return the next answer on this channel."""
        while not self.inbox:
            self.client.pump()
        return self.inbox.popleft()

    def wait_for(self, *types: type[Method]) -> Received:
        """The first of these methods; what comes before it stays in the inbox. `Closed` where there is none."""
        seen = 0
        while True:
            while len(self.inbox) > seen:
                received = self.inbox[seen]
                if isinstance(received.method, types):
                    del self.inbox[seen]
                    return received
                if isinstance(received.method, ChannelClose):
                    del self.inbox[seen]
                    raise Closed(received.method)
                seen += 1
            self.client.pump()

    def expect(self, type_: type[Method], **fields: Any) -> Received:
        """The very next thing must be this method with these fields."""
        received = self.next()
        if isinstance(received.method, ChannelClose) and type_ is not ChannelClose:
            raise Closed(received.method)
        assert isinstance(received.method, type_), f"{received} instead of {type_.name}"
        assert {name: getattr(received.method, name) for name in fields} == fields, f"{received.method}, not {fields}"
        return received

    def deliveries(self, count: int) -> list[Received]:
        """The next `count` things, all of which must be deliveries."""
        return [self.expect(BasicDeliver) for _ in range(count)]

    def bodies(self, count: int) -> list[bytes]:
        """The bodies of the next `count` deliveries."""
        return [each.body for each in self.deliveries(count)]

    def expect_close(self, expected: str) -> None:
        """The broker's very next word closes the channel or connection, as in `channel 404 queue.bind NOT_FOUND - …`.

        A channel's number can be used again.
        """
        actual = self.refusal()
        assert actual == expected, f"{actual!r}\ninstead of\n{expected!r}"

    def refusal(self) -> str:
        """How the broker closes, in `Closed`'s words; the channel is opened again."""
        try:
            received = self.next()
        except Closed as closed:
            return str(closed)
        assert isinstance(received.method, ChannelClose), f"{received} where a close was expected"
        self.call(ChannelOpen())
        return str(Closed(received.method))

    def expect_nothing(self, *queues: str) -> None:
        """Nothing has come, nor does while the broker answers for these queues, and for the channel, three times."""
        for _ in range(3):
            self.settle(*queues)
            assert not self.inbox, f"{list(self.inbox)} where nothing was expected"

    def settle(self, *queues: str) -> None:
        """Wait until the broker has done all that this channel asked of it, and of these queues."""
        for queue in queues:
            self.depth(queue)
        self.call(ExchangeDeclare(exchange="amq.direct", passive=True))

    # --- the usual calls, in short

    def declare(self, queue: str = "", *, arguments: Mapping[str, Any] | None = None, **flags: bool) -> str:
        """A queue; its name."""
        method = QueueDeclare(queue=queue, arguments=Table(arguments or {}), **flags)
        return self.call(method).queue  # type: ignore[no-any-return]

    def exchange(
        self, exchange: str, type_: str = "direct", *, arguments: Mapping[str, Any] | None = None, **flags: bool
    ) -> str:
        """An exchange; its name."""
        self.call(ExchangeDeclare(exchange=exchange, type=type_, arguments=Table(arguments or {}), **flags))
        return exchange

    def bind(self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        self.call(QueueBind(queue=queue, exchange=exchange, routing_key=key, arguments=Table(arguments or {})))

    def bind_exchange(self, to: str, source: str, key: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        self.call(ExchangeBind(destination=to, source=source, routing_key=key, arguments=Table(arguments or {})))

    def peek(self, queue: str) -> QueueDeclareOk:
        """Return the answer to a passive declare of a queue."""
        return self.call(QueueDeclare(queue=queue, passive=True))  # type: ignore[no-any-return]

    def depth(self, queue: str) -> int:
        """Ready messages. Asked twice: RabbitMQ's queues answer this before they take in what came before it."""
        self.peek(queue)
        return self.peek(queue).message_count

    def exists(self, queue: str) -> bool:
        """Whether a queue is there. One that another connection holds for itself counts."""
        try:
            self.peek(queue)
        except Closed as closed:
            self.call(ChannelOpen())
            if closed.method.reply_code not in (404, 405):
                raise
            return closed.method.reply_code == 405
        return True

    def get(self, queue: str, *, no_ack: bool = True) -> Received | None:
        """The next message, or None."""
        self.send(BasicGet(queue=queue, no_ack=no_ack))
        received = self.wait_for(BasicGetOk, BasicGetEmpty)
        return received if isinstance(received.method, BasicGetOk) else None

    def drain(self, queue: str) -> list[bytes]:
        """The bodies of all ready messages, which are taken."""
        bodies = []
        while received := self.get(queue):
            bodies.append(received.body)
        return bodies

    def consume(self, queue: str, tag: str = "", *, arguments: Mapping[str, Any] | None = None, **flags: bool) -> str:
        """The consumer's tag."""
        method = BasicConsume(queue=queue, consumer_tag=tag, arguments=Table(arguments or {}), **flags)
        self.send(method)
        return self.wait_for(BasicConsumeOk).method.consumer_tag  # type: ignore[no-any-return]

    def cancel(self, tag: str) -> None:
        self.call(BasicCancel(tag))

    def qos(self, count: int, *, global_: bool = False) -> None:
        self.call(BasicQos(0, count, global_))

    def confirms(self) -> None:
        """Publishes are confirmed from here on."""
        self.call(ConfirmSelect())

    def outcome(self) -> str:
        """Return the outcome of the last publish: the next method is a single "ack" or "nack"."""
        method = self.next().method
        assert isinstance(method, (BasicAck, BasicNack)), method
        return "ack" if isinstance(method, BasicAck) else "nack"

    def ack(self, tag: int | Received = 0, *, multiple: bool = False) -> None:
        self.send(BasicAck(_tag(tag), multiple))

    def nack(self, tag: int | Received = 0, *, multiple: bool = False, requeue: bool = True) -> None:
        self.send(BasicNack(_tag(tag), multiple, requeue))

    def reject(self, tag: int | Received, *, requeue: bool = False) -> None:
        self.send(BasicReject(_tag(tag), requeue))

    def close(self) -> None:
        self.call(ChannelClose(200, "bye"))


def _tag(tag: int | Received) -> int:
    return tag.method.delivery_tag if isinstance(tag, Received) else tag
