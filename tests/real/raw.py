"""A raw socket that speaks just enough AMQP 0-9-1, and can speak it wrongly.

Nothing here uses the code under test: frames are built with `struct` from the specification.
"""

import contextlib
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = b"\xce"
FRAME_MAX = 131072

CONNECTION, CHANNEL, EXCHANGE, QUEUE, BASIC, TX, CONFIRM = 10, 20, 40, 50, 60, 90, 85
CONNECTION_CLOSE, CHANNEL_CLOSE = (10, 50), (20, 40)

DEADLINE = 30.0
"""Seconds before a silent peer fails the test; generous, because test machines are noisy."""


def shortstr(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return bytes([len(data)]) + data


def longstr(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def frame(kind: int, channel: int, payload: bytes = b"", end: bytes = END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def header(channel: int, size: int, *, class_id: int = BASIC, flags: int = 0, properties: bytes = b"") -> bytes:
    return frame(HEADER, channel, struct.pack(">HHQH", class_id, 0, size, flags) + properties)


def body(channel: int, payload: bytes) -> bytes:
    return frame(BODY, channel, payload)


def publish(channel: int, routing_key: str, *, exchange: str = "", bits: int = 0) -> bytes:
    """The method frame of basic.publish alone."""
    return method(channel, 60, 40, b"\0\0" + shortstr(exchange) + shortstr(routing_key) + bytes([bits]))


def message(channel: int, routing_key: str, payload: bytes, frame_max: int = FRAME_MAX) -> bytes:
    """A whole basic.publish with its content."""
    return publish(channel, routing_key) + content(channel, payload, frame_max)


def queue_declare(channel: int, name: str = "", *, exclusive: bool = True) -> bytes:
    return method(channel, 50, 10, b"\0\0" + shortstr(name) + bytes([0b0000_0100 if exclusive else 0]) + longstr(b""))


def deliver(channel: int, payload: bytes, *, tag: int = 1, frame_max: int = FRAME_MAX) -> bytes:
    """A whole basic.deliver with its content, as a broker sends it."""
    arguments = shortstr("consumer") + struct.pack(">Q", tag) + b"\0" + shortstr("") + shortstr("key")
    return method(channel, 60, 60, arguments) + content(channel, payload, frame_max)


def content(channel: int, payload: bytes, frame_max: int = FRAME_MAX) -> bytes:
    """Header and bodies."""
    size = frame_max - 8
    pieces = [payload[start : start + size] for start in range(0, len(payload), size)]
    return header(channel, len(payload)) + b"".join(body(channel, each) for each in pieces)


def consume(channel: int, queue: str, *, no_ack: bool = True) -> bytes:
    arguments = b"\0\0" + shortstr(queue) + shortstr("") + bytes([0b10 if no_ack else 0]) + longstr(b"")
    return method(channel, 60, 20, arguments)


def channel_open(channel: int) -> bytes:
    return method(channel, 20, 10, shortstr(""))


def connection_close(code: int = 200, text: str = "bye") -> bytes:
    return method(0, 10, 50, struct.pack(">H", code) + shortstr(text) + b"\0\0\0\0")


def connection_close_ok() -> bytes:
    return method(0, 10, 51)


def capabilities(*names: str) -> bytes:
    """Client properties that announce these capabilities."""
    inner = b"".join(shortstr(name) + b"t\1" for name in names)
    return shortstr("capabilities") + b"F" + longstr(inner)


def product(name: str, *announced: str) -> bytes:
    """Client properties that announce this product, and these capabilities beside that of being told refusals."""
    return (
        shortstr("product") + b"S" + longstr(name.encode()) + capabilities("authentication_failure_close", *announced)
    )


def start_ok(user: str = "guest", password: str = "guest", properties: bytes | None = None) -> bytes:
    if properties is None:
        properties = capabilities("authentication_failure_close", "connection.blocked", "consumer_cancel_notify")
    response = f"\0{user}\0{password}".encode()
    return method(0, 10, 11, longstr(properties) + shortstr("PLAIN") + longstr(response) + shortstr("en_US"))


def tune_ok(channel_max: int = 2047, frame_max: int = FRAME_MAX, heartbeat: int = 0) -> bytes:
    return method(0, 10, 31, struct.pack(">HIH", channel_max, frame_max, heartbeat))


def connection_open(vhost: str = "/") -> bytes:
    return method(0, 10, 40, shortstr(vhost) + shortstr("") + b"\0")


class Close(NamedTuple):
    """connection.close or channel.close."""

    method: tuple[int, int]
    channel: int
    code: int
    text: str
    class_id: int
    method_id: int


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes

    @property
    def method(self) -> tuple[int, int] | None:
        """Class and method ids, or None when this is not a method frame."""
        return struct.unpack_from(">HH", self.payload) if self.kind == METHOD else None

    @property
    def close(self) -> Close | None:
        """What a close method contains, or None when this is another frame."""
        if self.method not in (CONNECTION_CLOSE, CHANNEL_CLOSE):
            return None
        code, length = struct.unpack_from(">HB", self.payload, 4)
        text = self.payload[7 : 7 + length].decode()
        return Close(self.method, self.channel, code, text, *struct.unpack_from(">HH", self.payload, 7 + length))


class Unexpected(AssertionError):
    """The peer sent something else, or nothing."""


class Peer:
    """One end of a TCP connection that reads and writes whole frames."""

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(DEADLINE)
        self.stream = stream
        self.pending = b""
        self.frame_max = FRAME_MAX

    @classmethod
    def connect(cls, port: int) -> Self:
        """A TCP connection on which nothing has been sent."""
        return cls(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE))

    @classmethod
    def opened(cls, port: int, *channels: int, **tuning: Any) -> Self:
        """An open AMQP connection with these channels open."""
        peer = cls.connect(port)
        try:
            peer.handshake(**tuning)
            for channel in channels:
                peer.send(channel_open(channel))
                peer.expect(20, 11)
        except BaseException:
            peer.stream.close()
            raise
        return peer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    @property
    def address(self) -> tuple[str, int]:
        return self.stream.getsockname()  # type: ignore[no-any-return]

    def send(self, *data: bytes) -> None:
        self.stream.sendall(b"".join(data))

    def receive(self, count: int) -> bytes:
        """Exactly `count` bytes, or fewer where the peer closed first."""
        while len(self.pending) < count:
            try:
                chunk = self.stream.recv(262144)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                break
            self.pending += chunk
        taken, self.pending = self.pending[:count], self.pending[count:]
        return taken

    def read(self) -> Frame | None:
        """The next frame; None once the peer has closed, or a ValueError where it closed inside one."""
        start = self.receive(7)
        if not start:
            return None
        if len(start) < 7:
            raise ValueError(f"closed inside a frame: {start!r}")
        kind, channel, size = struct.unpack(">BHI", start)
        rest = self.receive(size + 1)
        if len(rest) <= size or rest[-1:] != END:
            raise ValueError(f"not a whole frame: {kind=} {channel=} {size=}")
        return Frame(kind, channel, rest[:-1])

    def frames(self) -> Iterator[Frame]:
        """Every frame until the peer closes."""
        while (received := self.read()) is not None:
            yield received

    def expect(self, class_id: int, method_id: int) -> Frame:
        """The next frame that is not a heartbeat, which must be this method."""
        while (received := self.read()) is not None and received.kind == HEARTBEAT:
            pass
        if received is None or received.method != (class_id, method_id):
            got = received and (received.close or received)
            raise Unexpected(f"expected {class_id}.{method_id}, got {got or 'the end of the stream'}")
        return received

    def handshake(
        self,
        *,
        heartbeat: int = 0,
        frame_max: int = FRAME_MAX,
        channel_max: int = 2047,
        properties: bytes | None = None,
        password: str = "guest",
    ) -> None:
        """From the protocol header to connection.open-ok."""
        self.send(PROTOCOL_HEADER)
        self.expect(10, 10)
        self.send(start_ok(password=password, properties=properties))
        self.expect(10, 30)
        self.frame_max = frame_max
        self.send(tune_ok(channel_max, frame_max, heartbeat), connection_open())
        self.expect(10, 41)

    def declare(self, channel: int = 1, name: str = "", *, exclusive: bool = True) -> str:
        """Declares a queue; its name, which the server chooses where `name` is empty."""
        self.send(queue_declare(channel, name, exclusive=exclusive))
        payload = self.expect(50, 11).payload
        return payload[5 : 5 + payload[4]].decode()

    def closed(self) -> Close | None:
        """Reads to the end of the stream; the first close method on the way, answered if it ends the connection."""
        found = None
        for each in self.frames():
            found = found or each.close
            if each.method == CONNECTION_CLOSE:
                with contextlib.suppress(OSError):
                    self.send(connection_close_ok())
        return found

    def reset(self) -> None:
        """Ends the connection with RST, as a killed machine's kernel would."""
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.close()


@contextmanager
def listening(backlog: int = 64) -> Iterator[socket.socket]:
    """A listening socket on a free loopback port."""
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listener:
        listener.settimeout(DEADLINE)
        yield listener


def serve_handshake(listener: socket.socket, *, heartbeat: int = 0) -> Peer:
    """Accepts a connection and plays the broker's part as far as connection.open-ok."""
    peer = Peer(listener.accept()[0])
    if (opening := peer.receive(8)) != PROTOCOL_HEADER:
        raise Unexpected(f"expected a protocol header, got {opening!r}")
    peer.send(method(0, 10, 10, b"\0\x09" + longstr(b"") + longstr(b"PLAIN") + longstr(b"en_US")))
    peer.expect(10, 11)
    peer.send(method(0, 10, 30, struct.pack(">HIH", 2047, FRAME_MAX, heartbeat)))
    peer.expect(10, 31)
    peer.expect(10, 40)
    peer.send(method(0, 10, 41, shortstr("")))
    return peer


@contextmanager
def joined(port: int, listener: socket.socket, *, heartbeat: int = 0) -> Iterator[tuple[Peer, Peer]]:
    """A client at `port` and the broker it reaches at `listener`, the connection and channel 1 open."""
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(serve_handshake, listener, heartbeat=heartbeat)
        with Peer.connect(port) as client:
            client.handshake(heartbeat=heartbeat)
            with serving.result(DEADLINE) as broker:
                client.send(channel_open(1))
                broker.expect(20, 10)
                broker.send(method(1, 20, 11, longstr(b"")))
                client.expect(20, 11)
                yield client, broker
