"""Legal, or at least taken by RabbitMQ, but rarely seen: the proxy must not stumble, nor change a byte."""

import struct
from collections.abc import Callable

import pytest

from tests.real import raw
from tests.real.clients import Broker
from tests.real.malformed import BETTER, MALFORMED, Case, advance
from tests.real.rabbitmq import RabbitMQ, profile_of
from tests.real.raw import Peer
from tests.real.route import Watched

pytestmark = pytest.mark.real

Script = Callable[[Broker], None]
SCRIPTS: dict[str, Script] = {}

EVERY_TYPE = b"".join(
    raw.shortstr(f"key-{kind.decode()}") + kind + value
    for kind, value in {
        b"t": b"\1",
        b"b": b"\xff",
        b"B": b"\xff",
        b"s": b"\xff\xfe",
        b"u": b"\xff\xfe",
        b"I": b"\xff\xff\xff\xfe",
        b"i": b"\xff\xff\xff\xfe",
        b"l": b"\xff" * 8,
        b"L": b"\xff" * 8,
        b"f": struct.pack(">f", 0.5),
        b"d": struct.pack(">d", 1e300),
        b"D": b"\2\0\0\1\x3a",
        b"S": raw.longstr(b"\xff not UTF-8"),
        b"x": raw.longstr(b"\0\xff"),
        b"A": raw.longstr(b"t\1V" + b"A" + raw.longstr(b"")),
        b"T": b"\0\0\0\0\x65\x53\xf1\0",
        b"F": raw.longstr(b"\1kF" + raw.longstr(b"")),
        b"V": b"",
    }.items()
)
EVERY_PROPERTY = b"".join(
    (
        raw.shortstr("text/plain"),
        raw.shortstr("utf-8"),
        raw.longstr(EVERY_TYPE),
        b"\1\5",
        *map(raw.shortstr, ("correlation", "reply", "60000", "id")),
        b"\0\0\0\0\x65\x53\xf1\0",
        *map(raw.shortstr, ("type", "guest", "app", "cluster")),
    )
)


def script(play: Script) -> Script:
    SCRIPTS[play.__name__] = play
    return play


def leave(client: Peer) -> None:
    """Closes in order, passing over whatever is still on its way."""
    client.send(raw.connection_close())
    while (received := client.read()) is not None and received.method != (10, 51):
        pass
    assert received is not None, "closed without connection.close-ok"


@script
def opened_in_one_segment(broker: Broker) -> None:
    """What a client may send without waiting, once it has received the limits."""
    with Peer.connect(broker.port) as client:
        client.send(raw.PROTOCOL_HEADER)
        client.expect(10, 10)
        client.send(raw.start_ok())
        client.expect(10, 30)
        client.send(raw.tune_ok(), raw.connection_open(), raw.channel_open(1), raw.queue_declare(1))
        for expected in ((10, 41), (20, 11), (50, 11)):
            client.expect(*expected)
        leave(client)


@script
def publishing_on_after_the_channel_was_closed(broker: Broker) -> None:
    """A client learns late that its exchange is missing."""
    with Peer.opened(broker.port, 1, 2) as client:
        lost = raw.publish(1, "key", exchange="missing") + raw.content(1, bytes(5000))
        client.send(lost * 100)
        close = client.expect(20, 40).close
        assert close is not None
        assert close.code == 404
        client.send(lost * 100, raw.method(1, 20, 41), raw.channel_open(1))
        client.expect(20, 11)
        assert client.declare()
        leave(client)


@script
def channel_closes_that_cross(broker: Broker) -> None:
    with Peer.opened(broker.port, 1) as client:
        for _ in range(10):
            lost = raw.publish(1, "key", exchange="missing") + raw.content(1, b"lost")
            client.send(lost, raw.method(1, 20, 40, b"\0\xc8" + raw.shortstr("bye") + bytes(4)))
            if client.read().method == (20, 40):  # type: ignore[union-attr]
                client.send(raw.method(1, 20, 41))
                client.expect(20, 41)
            client.send(raw.channel_open(1))
            client.expect(20, 11)
        leave(client)


@script
def contents_woven_together(broker: Broker) -> None:
    """Frames of two contents and heartbeats in turn, as one connection may carry them."""
    with Peer.opened(broker.port, 1, 2, heartbeat=60) as client:
        name = client.declare()
        heartbeat = raw.frame(raw.HEARTBEAT, 0)
        client.send(raw.publish(1, name), heartbeat, raw.publish(2, name), raw.header(2, 2), heartbeat)
        client.send(raw.header(1, 3), raw.body(1, b"1"), raw.body(2, b"a"), raw.body(1, b""), raw.body(2, b"b"))
        client.send(heartbeat, raw.body(1, b"23"), raw.consume(1, name))
        client.expect(60, 21)
        bodies = set()
        while len(bodies) < 2:
            received = client.read()
            assert received is not None
            if received.kind == raw.BODY:
                bodies.add(received.payload)
        assert bodies == {b"123", b"ab"}
        leave(client)


@script
def small_frames(broker: Broker) -> None:
    with Peer.connect(broker.port) as client:
        client.send(raw.PROTOCOL_HEADER)
        frame_max = profile_of(client.expect(10, 10)).frame_max_floor
        client.send(raw.start_ok())
        client.expect(10, 30)
        client.send(raw.tune_ok(frame_max=frame_max), raw.connection_open(), raw.channel_open(1))
        client.expect(10, 41)
        client.expect(20, 11)
        name = client.declare()
        client.send(raw.message(1, name, bytes(1_000_000), frame_max=frame_max), raw.consume(1, name))
        client.expect(60, 21)
        client.expect(60, 60)
        client.read()
        size = 0
        while size < 1_000_000:
            received = client.read()
            assert received is not None
            assert len(received.payload) <= frame_max - 8
            size += len(received.payload)
        leave(client)


@script
def bodies_at_the_edges(broker: Broker) -> None:
    """Empty, one frame exactly, one byte more, and two frames exactly."""
    whole = raw.FRAME_MAX - 8
    with Peer.opened(broker.port, 1) as client:
        name = client.declare()
        sizes = [0, 1, whole, whole + 1, 2 * whole]
        client.send(*(raw.message(1, name, bytes(size)) for size in sizes), raw.consume(1, name))
        client.expect(60, 21)
        for size in sizes:
            client.expect(60, 60)
            header = client.read()
            assert header is not None
            assert struct.unpack_from(">Q", header.payload, 4) == (size,)
            while size > 0:
                received = client.read()
                assert received is not None
                size -= len(received.payload)
        leave(client)


@script
def every_property_and_table_type(broker: Broker) -> None:
    with Peer.opened(broker.port, 1) as client:
        name = client.declare()
        properties = raw.header(1, 0, flags=0xFFFC, properties=EVERY_PROPERTY)
        client.send(raw.publish(1, name) + properties, raw.consume(1, name))
        client.expect(60, 21)
        client.expect(60, 60)
        received = client.read()
        assert received is not None
        assert received.kind == raw.HEADER
        leave(client)


@script
def cancelled_by_the_server(broker: Broker) -> None:
    with Peer.opened(broker.port, 1, 2) as client:
        name = client.declare()
        client.send(raw.consume(1, name))
        client.expect(60, 21)
        client.send(raw.method(2, 50, 40, b"\0\0" + raw.shortstr(name) + b"\0"))
        seen = set()
        while not seen >= {(60, 30), (50, 41)}:
            received = client.read()
            assert received is not None
            seen.add(received.method)
        leave(client)


@script
def no_client_waits(broker: Broker) -> None:
    """Methods with nowait set have no answer."""
    with Peer.opened(broker.port, 1) as client:
        name = client.declare()
        arguments = raw.longstr(b"")
        client.send(
            raw.method(1, 85, 10, b"\1"),
            raw.method(1, 40, 10, b"\0\0" + raw.shortstr("tests.rare") + raw.shortstr("fanout") + b"\x14" + arguments),
            raw.method(1, 50, 20, b"\0\0" + raw.shortstr(name) + raw.shortstr("tests.rare") + b"\0\1" + arguments),
            raw.method(1, 60, 20, b"\0\0" + raw.shortstr(name) + raw.shortstr("tag") + b"\x0a" + arguments),
            raw.publish(1, "", exchange="tests.rare") + raw.content(1, b"hello"),
        )
        seen = set()
        while not seen >= {(60, 80), (60, 60)}:
            received = client.read()
            assert received is not None
            seen.add(received.method)
        client.send(raw.method(1, 60, 30, raw.shortstr("tag") + b"\1"))
        client.send(raw.method(1, 40, 20, b"\0\0" + raw.shortstr("tests.rare") + b"\2"))
        leave(client)


@script
def rarely_used_methods(broker: Broker) -> None:
    arguments = raw.longstr(b"")
    binding = b"\0\0" + raw.shortstr("amq.fanout") + raw.shortstr("amq.topic") + raw.shortstr("#") + b"\0" + arguments
    with Peer.opened(broker.port, 1) as client:
        name = client.declare()
        for sent, answer in {
            raw.method(1, 30, 10, raw.shortstr("/data") + b"\x1f"): (30, 11),
            raw.method(1, 20, 20, b"\1"): (20, 21),
            raw.method(1, 40, 30, binding): (40, 31),
            raw.method(1, 40, 40, binding): (40, 51),
            raw.method(1, 60, 70, b"\0\0" + raw.shortstr(name) + b"\1"): (60, 72),
            raw.method(1, 60, 100, b"\1") + raw.method(1, 60, 110, b"\1"): (60, 111),
            raw.method(1, 50, 30, b"\0\0" + raw.shortstr(name) + b"\0"): (50, 31),
            raw.method(0, 10, 70, raw.longstr(b"new secret") + raw.shortstr("rotation")): (10, 71),
        }.items():
            client.send(sent)
            client.expect(*answer)
        leave(client)


@script
def closed_by_the_server_amid_a_content(broker: Broker) -> None:
    with Peer.opened(broker.port, 1, 2) as client:
        prefetch_size = raw.method(1, 60, 10, bytes([0, 0, 0, 1, 0, 0, 0]))
        message_bytes = raw.message(2, "nowhere", bytes(1_000_000))
        client.send(prefetch_size, message_bytes[:300_000])
        close = client.expect(10, 50).close
        assert close is not None
        assert close.code == 540
        client.send(message_bytes[300_000:], raw.connection_close_ok())
        assert client.read() is None


@script
def closed_by_an_operator(broker: Broker) -> None:
    with Peer.opened(broker.port, 1) as client:
        broker.ctl("close_all_connections", "maintenance")
        close = client.expect(10, 50).close
        assert close is not None
        assert close.code == 320
        assert "maintenance" in close.text
        client.send(raw.connection_close_ok())
        assert client.read() is None


@script
def many_requests_in_flight(broker: Broker) -> None:
    """Hundreds of synchronous methods on many channels without waiting for any answer."""
    channels = range(1, 201)
    with Peer.opened(broker.port) as client:
        client.send(*(raw.channel_open(each) + raw.queue_declare(each) for each in channels))
        answers = [client.read() for _ in range(2 * len(channels))]
        for channel in channels:
            assert [each.method for each in answers if each and each.channel == channel] == [(20, 11), (50, 11)]
        leave(client)


RACES = (publishing_on_after_the_channel_was_closed, channel_closes_that_cross)
"""What a client has sent when the broker's channel.close passes depends on where that is seen."""


@pytest.mark.once
@pytest.mark.parametrize("play", SCRIPTS.values(), ids=SCRIPTS)
def test_straight_to_rabbitmq(play: Script, rabbitmq: RabbitMQ) -> None:
    play(Broker(rabbitmq.port, rabbitmq.ctl))


@pytest.mark.parametrize("play", SCRIPTS.values(), ids=SCRIPTS)
def test_through_the_proxy(play: Script, watched: Watched) -> None:
    with watched(is_race=play in RACES) as broker:
        play(broker)


TAKEN = {
    case.name: case
    for case in MALFORMED
    if case.after == "channel" and case.rabbitmq in ("carries on", "541", "channel 406") and case.name not in BETTER
}


@pytest.mark.parametrize("case", TAKEN.values(), ids=TAKEN)
def test_what_rabbitmq_takes_passes_unchanged(case: Case, watched: Watched) -> None:
    with watched() as broker, Peer.connect(broker.port) as client:
        advance(client, case.after)
        client.send(case.data)
        if case.rabbitmq == "541":  # RabbitMQ answers no connection.close that comes before its channel has crashed
            client.expect(10, 50)
        leave(client)


@pytest.mark.once
@pytest.mark.parametrize(
    ("protocol", "header", "open_ok", "close", "close_ok"),
    [
        ("0-9-1", b"AMQP\0\0\x09\1", b"\0\0\0\0", 50, 51),
        ("0-9", b"AMQP\1\1\0\x09", b"\0\0\0\0", 50, 51),
        ("0-8", b"AMQP\1\1\x08\0", b"", 60, 61),
        ("0-9-1 (Qpid)", b"AMQP\1\1\x09\1", b"", 60, 61),
    ],
)
def test_after_which_headers_rabbitmq_speaks_another_protocol(
    protocol: str, header: bytes, open_ok: bytes, close: int, close_ok: int, rabbitmq: RabbitMQ
) -> None:
    """Why the proxy reads what follows the first two, and lets what follows the others pass only unread."""
    profile = rabbitmq.profile
    with Peer.connect(rabbitmq.port) as client:
        client.send(header)
        if protocol not in profile.protocols:
            assert client.receive(9) == profile.foreign_answer
            return
        client.expect(10, 10)
        client.send(raw.start_ok())
        client.expect(10, 30)
        client.send(raw.tune_ok(), raw.connection_open())
        client.expect(10, 41)
        client.send(raw.channel_open(1))
        assert client.expect(20, 11).payload[4:] == open_ok
        client.send(raw.method(0, 10, close, raw.connection_close()[11:-1]))
        client.expect(10, close_ok)
