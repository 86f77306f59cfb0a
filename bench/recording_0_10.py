"""The capture of `recording` in AMQP 0-10."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from uuid import UUID

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageAccept, MessageSubscribe, MessageTransfer
from amqproxy.amqp010.controls import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
)
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Array, Map
from bench.recording import BATCH, BODY, SEGMENTS, write_turns

UTF_8 = Array("str16", ["en_US"])


def write(path: Path, messages: int) -> tuple[int, list[bytes]]:
    """Write a pcap of one connection for each of `SEGMENTS`; return the number of messages, and each side's frames.

    The messages of the first two connections have the same properties, those of the others differ.
    """
    count = 0
    conversations = []
    for number in range(len(SEGMENTS)):
        turns = list(_turns_of(messages // len(SEGMENTS), is_alike=number < len(SEGMENTS) // 2))
        count += len(turns) // 3 * 2 * BATCH
        conversations.append([*_greet(), *turns])
    write_turns(path, conversations)
    headers = ((0, HEADER), (1, HEADER))
    return count, [
        b"".join([data for side, data in conversation if side == each and (side, data) not in headers])
        for conversation in conversations
        for each in (0, 1)
    ]


def _greet() -> list[tuple[int, bytes]]:
    """Return the turns of the handshake, of attaching two sessions, and of a subscription."""
    start = ConnectionStart(Map({"product": "bench"}), Array("str16", ["PLAIN"]), UTF_8)
    start_ok = ConnectionStartOk(Map({"product": "bench"}), "PLAIN", b"\0guest\0guest", "en_US")
    steps = (
        (0, start_ok),
        (1, ConnectionTune(256, 65_535, 0, 120)),
        (0, ConnectionTuneOk(256, 65_535, 0)),
        (0, ConnectionOpen("test")),
        (1, ConnectionOpenOk(Array("str16"))),
    )
    turns = [(0, HEADER), (1, HEADER), (1, encode_method(0, start))]
    turns += [(side, encode_method(0, control)) for side, control in steps]
    for channel in (1, 2):
        name = b"session %d" % channel
        turns += [(0, encode_method(channel, SessionAttach(name))), (1, encode_method(channel, SessionAttached(name)))]
        turns += [(side, encode_method(channel, SessionCommandPoint(0, 0))) for side in (0, 1)]
    return [*turns, (0, encode_method(2, MessageSubscribe("orders", "1", 0, 0)))]


def _turns_of(count: int, *, is_alike: bool) -> Iterator[tuple[int, bytes]]:
    """Yield turns as in `recording`: messages half published and half delivered, all completed or accepted."""
    for first in range(0, count // 2, BATCH):
        numbers = range(first, min(first + BATCH, count // 2))
        yield 0, b"".join([_transfer(1, "", number, is_alike) for number in numbers])
        yield (
            1,
            b"".join(
                chain.from_iterable(
                    (
                        encode_method(1, SessionCompleted(SequenceSet([(0, number)]))),
                        _transfer(2, "1", number, is_alike),
                    )
                    for number in numbers
                )
            ),
        )
        yield 0, b"".join([encode_method(2, MessageAccept(SequenceSet([(number, number)]))) for number in numbers])


def _transfer(channel: int, destination: str, number: int, is_alike: bool) -> bytes:
    delivery = DeliveryProperties(
        priority=4, delivery_mode=2, exchange="orders", routing_key=f"orders.eu.{number % 10}"
    )
    message = MessageProperties(len(BODY), content_type="application/json")
    if not is_alike:
        headers = Map({"attempt": number % 3, "tenant": "acme"}) if number % 4 == 0 else None
        message = MessageProperties(
            len(BODY),
            UUID(int=number),
            f"{number:08x}".encode(),
            content_type="application/json",
            application_headers=headers,
        )
    command = MessageTransfer(destination, 0, 0)
    return Assembly(channel, command, Header((delivery, message)), BODY).encode()
