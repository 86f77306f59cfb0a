"""A generated capture for the decoders: traffic of clients and a broker, as TCP segments in a pcap file."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from bench import talk

PORT = 5672
SEGMENTS = (1448, 65_483, 1448, 65_483)
"""Segment size in bytes by connection: as on a network, and as on loopback or with offloading cards.

The messages of the first two connections have the same properties, those of the others differ.
"""

HEADER_BYTES = 24
"""Bytes of a pcap header, before the packets."""

BATCH = 50
"""Messages that one side sends before the other answers."""


def turns_of(count: int, properties: Callable[[int], Properties]) -> Iterator[tuple[int, bytes]]:
    """Yield the turns of a conversation as (0 for the client or 1 for the broker, bytes).

    They carry `count` messages, half of them published and half delivered, all confirmed or acknowledged.
    """
    tag = 0
    for _ in range(count // (2 * BATCH)):
        tags = range(tag + 1, tag + BATCH + 1)
        tag += BATCH
        published = [_publish(number, properties(number)) for number in tags]
        delivered = [encode_method(1, BasicAck(number)) + _deliver(number, properties(number)) for number in tags]
        yield 0, b"".join(published)
        yield 1, b"".join(delivered)
        yield 0, b"".join([encode_method(2, BasicAck(number)) for number in tags])


def _publish(number: int, properties: Properties) -> bytes:
    return Command(1, BasicPublish(exchange="orders", routing_key=f"orders.eu.{number % 10}"), properties, BODY).encode(
        0
    )


def _deliver(number: int, properties: Properties) -> bytes:
    key = f"orders.eu.{number % 10}"
    method = BasicDeliver(consumer_tag="ctag1.0", delivery_tag=number, exchange="orders", routing_key=key)
    return Command(2, method, properties, BODY).encode(0)


def alike(_: int) -> Properties:
    """Return the properties that an event publisher gives to every message."""
    return Properties(content_type="application/json", delivery_mode=2)


def unlike(number: int) -> Properties:
    """Return the properties that an RPC client gives to each request, every fourth with headers."""
    headers = Table({"attempt": number % 3, "tenant": "acme"}) if number % 4 == 0 else None
    return Properties(content_type="application/json", headers=headers, delivery_mode=2, correlation_id=f"{number:08x}")


BODY = b'{"id": 12345, "what": "a hundred bytes of an order that somebody made", "how many": 3, "pad": "...."}'[:100]


def write(
    path: Path, messages: int, *, first_client: int = 40_000, is_interleaved: bool = False
) -> tuple[int, list[bytes]]:
    """Write a pcap of one connection for each of `SEGMENTS`; return the number of messages, and each stream's bytes.

    There are two streams per connection. The clients have the ports from `first_client` on. The connections follow one
    another, or alternate if `is_interleaved`.
    """
    streams: list[bytes] = []
    count = 0
    conversations = []
    for number in range(len(SEGMENTS)):
        turns = list(turns_of(messages // len(SEGMENTS), alike if number < len(SEGMENTS) // 2 else unlike))
        count += len(turns) // 3 * 2 * BATCH
        streams += [b"".join([data for side, data in turns if side == each]) for each in (0, 1)]
        conversations.append(_greet() + turns)
    write_turns(path, conversations, first_client=first_client, is_interleaved=is_interleaved)
    return count, streams


def write_turns(
    path: Path,
    conversations: Iterable[Iterable[tuple[int, bytes]]],
    *,
    first_client: int = 40_000,
    is_interleaved: bool = False,
) -> None:
    """Write a pcap of one connection per conversation, in segments of the sizes in `SEGMENTS`."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        connections = [
            _segments(first_client + number, turns, SEGMENTS[number % len(SEGMENTS)])
            for number, turns in enumerate(conversations)
        ]
        in_order: Iterable[tuple[int, int, list[int], int, bytes]] = chain.from_iterable(connections)
        if is_interleaved:
            in_order = (each for several in zip_longest(*connections) for each in several if each is not None)
        for now, (client, side, sequence, flags, data) in enumerate(in_order, 1):
            file.write(_packet(now, client, side, sequence, flags, data))
            sequence[side] += len(data) + (flags & 0x02 > 0)


def write_large(path: Path, size: int, messages: int) -> None:
    """Write a pcap of at least `size` bytes, a sequence of captures like those of `write`.

    Each has `messages` messages, and separate connections.
    """
    part = path.with_name("part.pcap")
    write(part, messages, first_client=20_000)
    packets = bytearray(part.read_bytes())
    part.unlink()
    with path.open("wb") as file:
        file.write(packets[:HEADER_BYTES])
        while file.tell() < size:
            file.write(memoryview(packets)[HEADER_BYTES:])
            _move_clients(packets)


def _move_clients(packets: bytearray) -> None:
    """Give the clients in these packets other ports."""
    at = HEADER_BYTES
    while at < len(packets):
        data = at + 16
        for port in (data + 34, data + 36):  # after the headers of Ethernet and IP
            number = int.from_bytes(packets[port : port + 2])
            if number != PORT:
                packets[port : port + 2] = (number + len(SEGMENTS)).to_bytes(2)
        at = data + int.from_bytes(packets[at + 8 : at + 12], "little")


def _segments(
    client: int, turns: Iterable[tuple[int, bytes]], size: int
) -> Iterator[tuple[int, int, list[int], int, bytes]]:
    """Yield the segments of a connection: client port, sending side, sequence numbers before it, flags, bytes."""
    sequence = [1000, 2000]
    for flags, side in ((0x02, 0), (0x12, 1), (0x10, 0)):
        yield client, side, sequence, flags, b""
    for side, data in turns:
        for start in range(0, len(data), size):
            yield client, side, sequence, 0x18, data[start : start + size]


def _greet() -> list[tuple[int, bytes]]:
    """Return the turns of the handshake, and of opening a confirming channel and a consuming one."""
    consuming = (
        (ChannelOpen(), ChannelOpenOk()),
        (BasicConsume(queue="orders", consumer_tag="ctag1.0"), BasicConsumeOk("ctag1.0")),
    )
    steps = [*talk.ANSWERS, talk.CONFIRMING]
    steps += [(encode_method(2, sent), encode_method(2, answered)) for sent, answered in consuming]
    return [turn for sent, answered in steps for turn in ((0, sent), (1, answered))]


def _packet(now: int, client: int, side: int, sequence: list[int], flags: int, data: bytes) -> bytes:
    """Return a pcap record of Ethernet, IPv4 and TCP.

    `now` is in units of 20 µs. The checksums are zero, as with offloading cards.
    """
    ports = (client, PORT) if side == 0 else (PORT, client)
    hosts = (b"\x0a\0\0\1", b"\x0a\0\0\2") if side == 0 else (b"\x0a\0\0\2", b"\x0a\0\0\1")
    acknowledged = sequence[1 - side] if flags & 0x10 else 0
    tcp = struct.pack(">HHIIBBHHH", *ports, sequence[side], acknowledged, 0x50, flags, 0xFFFF, 0, 0) + data
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), now & 0xFFFF, 0x4000, 64, 6, 0, *hosts) + tcp
    frame = b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0" + ip
    seconds, micros = divmod(now * 20, 1_000_000)
    return struct.pack("<IIII", 1_700_000_000 + seconds, micros, len(frame), len(frame)) + frame
