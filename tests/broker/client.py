"""A client of a `Amqp091Connection`, in memory: methods in, what the broker answers out, and a clock that stands still.

Answers come as `Received`; a close is shown in one line, as in `channel 404 queue.bind NOT_FOUND - no queue …`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amqproxy.amqp091.commands import CommandReader
from amqproxy.amqp091.frame import FRAME_MIN_SIZE, HEARTBEAT, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    METHODS,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueBind,
    QueueDeclare,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.broker import Broker

CAPABILITIES = {"authentication_failure_close": True, "consumer_cancel_notify": True, "connection.blocked": True}


class Received(NamedTuple):
    channel: int
    method: Any
    properties: Properties
    body: bytes


class Client:
    """One connection to a broker. `now` is its time, which moves only when it is set; `start` opens nothing yet."""

    def __init__(self, broker: Broker, *, is_loopback: bool = True, certificate_name: str | None = None) -> None:
        self.broker = broker
        self.now = 1000.0
        self.heartbeats = 0
        self.connection = Amqp091Connection(
            broker,
            is_loopback=is_loopback,
            wake=lambda: None,
            name="client -> broker",
            certificate_name=certificate_name,
            now=self.now,
        )
        self._reader = FrameReader(frame_max=0)
        self._assemblers: dict[int, CommandReader] = {}

    # --- the handshake

    def open(
        self,
        vhost: str = "/",
        user: str = "guest",
        password: str = "guest",
        *,
        heartbeat: int = 0,
        channel_max: int = 2047,
        frame_max: int = 131_072,
    ) -> Client:
        """All of it; `Refused` when the broker does not let us."""
        self.feed(HEADER)
        self.send(0, self.start_ok(f"\0{user}\0{password}".encode()))
        self.expect_none_but(self.receive(), "connection.start", "connection.tune")
        self.send(0, ConnectionTuneOk(channel_max, frame_max, heartbeat))
        self.send(0, ConnectionOpen(vhost))
        self.expect_none_but(self.receive(), "connection.open-ok")
        return self

    @staticmethod
    def start_ok(response: bytes, mechanism: str = "PLAIN", *, capabilities: Any = CAPABILITIES) -> ConnectionStartOk:
        return ConnectionStartOk(Table({"capabilities": dict(capabilities)}), mechanism, response, "en_US")

    def expect_none_but(self, received: list[Received], *names: str) -> None:
        if [each.method.name for each in received] != list(names):
            raise Refused(" · ".join(map(in_words, received)) or ("closed" if self.connection.is_over else "silence"))

    def channel(self, number: int = 1) -> int:
        """Open a channel; its number."""
        self.send(number, ChannelOpen())
        self.expect_none_but(self.receive(), "channel.open-ok")
        return number

    # --- out and in

    def feed(self, data: bytes) -> None:
        self.broker.work.quantum.begin()
        self.connection.feed(data, self.now)

    def rest(self) -> None:
        """Let the broker do what it has left to later turns."""
        while self.broker.work:
            self.broker.work.go_on(self.now)

    def send(self, channel: int, method: Method, body: bytes = b"", **properties: Any) -> None:
        data = encode_method(channel, method)
        if method.carries_content:
            if isinstance(properties.get("headers"), dict):
                properties["headers"] = Table(properties["headers"])
            data += encode_frame(2, channel, ContentHeader(len(body), Properties(**properties)).encode())
            step = FRAME_MIN_SIZE - 8
            for start in range(0, len(body), step):
                data += encode_frame(3, channel, body[start : start + step])
        self.feed(data)

    def receive(self) -> list[Received]:
        """All that the broker has sent since the last time."""
        self.rest()
        data = self.connection.take_output()
        if data:
            self.connection.sent(self.now)
        if data == HEADER:
            raise Refused("header")
        received = []
        for frame in self._reader.feed(data):
            if frame.kind == HEARTBEAT:
                self.heartbeats += 1
                continue
            command = self._assemblers.setdefault(frame.channel, CommandReader()).add(frame)
            if command is None:
                continue
            received.append(Received(frame.channel, command.method, command.properties, command.body))
            if isinstance(command.method, ChannelClose):
                self.send(frame.channel, ChannelCloseOk())
        if self._reader.error is not None:
            raise self._reader.error
        return received

    def ask(self, method: Method, channel: int = 1) -> Any:
        """Send a method; the one answer. `Refused` when it is a close."""
        self.send(channel, method)
        (answer,) = self.receive()
        if isinstance(answer.method, (ChannelClose, ConnectionClose)):
            raise Refused(in_words(answer))
        return answer.method

    def answers(self, *methods: Method, channel: int = 1) -> str:
        """Send some methods, the last of which is of interest: what came then, in words."""
        for method in methods:
            self.receive()
            self.send(channel, method)
        return self.transcript()

    def transcript(self) -> str:
        """What the broker has sent, in words."""
        text = " · ".join(map(in_words, self.receive()))
        return text or ("closed" if self.connection.is_over else "")

    # --- the usual, in short

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        *,
        channel: int = 1,
        mandatory: bool = False,
        **rest: Any,
    ) -> str:
        """Publish; what came then, in words."""
        self.send(channel, BasicPublish(0, exchange, routing_key, mandatory), body, **rest)
        return self.transcript()

    def declare(self, queue: str = "", channel: int = 1, **options: Any) -> str:
        options["arguments"] = Table(options.get("arguments", {}))
        return self.ask(QueueDeclare(queue=queue, **options), channel).queue  # type: ignore[no-any-return]

    def bind(self, queue: str, exchange: str, routing_key: str = "", **arguments: Any) -> None:
        self.ask(QueueBind(queue=queue, exchange=exchange, routing_key=routing_key, arguments=Table(arguments)))

    def depth(self, queue: str, channel: int = 1) -> int:
        return self.ask(QueueDeclare(queue=queue, passive=True), channel).message_count  # type: ignore[no-any-return]


class Refused(Exception):
    """The broker closed something, or sent what it should not."""


def in_words(received: Received) -> str:
    """A method in words; a close with all its arguments."""
    method = received.method
    if isinstance(method, (ChannelClose, ConnectionClose)):
        scope = "channel" if isinstance(method, ChannelClose) else "connection"
        number = method.failing_class_id << 16 | method.failing_method_id
        failing = METHODS[number].name if number in METHODS else f"{number >> 16}.{number & 0xFFFF}"
        return f"{scope} {method.reply_code} {failing} {method.reply_text}"
    return str(method.name)


def connected(broker: Broker | None = None, **options: Any) -> Client:
    """A client with channel 1 open."""
    client = Client(broker or Broker()).open(**options)
    client.channel()
    return client


def noted(broker: Broker) -> list[tuple[str, dict[str, Any]]]:
    """The failures that the broker contains from here on: what happened, and the fields, `reason` among them."""
    found: list[tuple[str, dict[str, Any]]] = []
    broker.events.on_failure = lambda event, failure, **fields: found.append(
        (event, {**fields, "reason": repr(failure)})
    )
    return found
