"""Connections made by hand, as they are decoded from a capture."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.wire import Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded

START_NS = 1_700_000_000 * 10**9
STEP_NS = 10**6


class Dialogue:
    """One connection, opened, with channel 1 open; `decoded` is what was seen of it. Each step takes a millisecond."""

    def __init__(
        self,
        user: str = "app",
        vhost: str = "/",
        *,
        stream: int = 0,
        address: str = "10.0.0.1",
        product: str = "pika",
        is_joined: bool = False,
    ) -> None:
        self.stream = stream
        self.connection = f"{address}:{40000 + stream}-10.0.0.2:5672"
        self.decoded: list[Decoded] = []
        self._now = START_NS + stream * 10**9
        if is_joined:
            return
        header = DecodedProtocolHeader(self._now, stream, self.connection, "client", NAME, b"AMQP\0\0\x09\x01")
        self.decoded.append(header)
        self.server(ConnectionStart(server_properties=Table({"product": "RabbitMQ"})), channel=0)
        start_ok = ConnectionStartOk(
            client_properties=Table({"product": product}),
            response=f"\0{user}\0secret".encode("utf-8", "surrogateescape"),
            mechanism="PLAIN",
        )
        self.client(start_ok, channel=0)
        self.server(ConnectionTune(channel_max=2047, frame_max=131072, heartbeat=60), channel=0)
        self.client(ConnectionTuneOk(channel_max=2047, frame_max=131072, heartbeat=60), channel=0)
        self.client(ConnectionOpen(virtual_host=vhost), channel=0)
        self.server(ConnectionOpenOk(), channel=0)
        self.client(ChannelOpen())
        self.server(ChannelOpenOk())

    def client(self, *methods: Method, channel: int = 1) -> Dialogue:
        for method in methods:
            self._add("client", [Frame(encode_method(channel, method))])
        return self

    def server(self, *methods: Method, channel: int = 1) -> Dialogue:
        for method in methods:
            self._add("server", [Frame(encode_method(channel, method))])
        return self

    def declare(self, queue: str, *, named: str = "") -> Dialogue:
        """Declare a queue; an empty name is answered with `named`."""
        self.client(QueueDeclare(queue=queue))
        return self.server(QueueDeclareOk(queue=queue or named, message_count=0, consumer_count=0))

    def content(
        self,
        method: BasicPublish | BasicDeliver | BasicGetOk | BasicReturn,
        body: bytes = b"",
        properties: Properties = NO_PROPERTIES,
        *,
        channel: int = 1,
    ) -> Dialogue:
        frames = [encode_method(channel, method)]
        frames.append(encode_frame(HEADER, channel, ContentHeader(len(body), properties).encode()))
        frames += [encode_frame(BODY, channel, body)] if body else []
        self._add("client" if isinstance(method, BasicPublish) else "server", [Frame(each) for each in frames])
        return self

    def publish(
        self, exchange: str = "", routing_key: str = "", body: bytes = b"", properties: Properties = NO_PROPERTIES
    ) -> Dialogue:
        return self.content(BasicPublish(exchange=exchange, routing_key=routing_key), body, properties)

    def end(self, reason: str = "the capture ends") -> Sequence[Decoded]:
        self.decoded.append(StreamEnded(self._now, self.stream, self.connection, reason))
        return self.decoded

    def _add(self, sender: str, frames: list[Frame]) -> None:
        self._now += STEP_NS
        self.decoded.append(Amqp091DecodedFrames(self._now, self.stream, self.connection, sender, frames))
