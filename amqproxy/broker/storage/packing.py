"""A message as it is stored on disk."""

from __future__ import annotations

import struct
from typing import NamedTuple

from amqproxy.broker.message import Message

_LENGTHS = struct.Struct(">HHIH")
_WIDE_LENGTHS = struct.Struct(">HIIII")
_WIDE = 0xFFFF
"""In place of the exchange's length: lengths follow that have room for any text, as a dead letter's key."""

DAMAGED = Message("", "", b"", b"")
"""Placeholder for a stored message that is unreadable."""


class PackedMessage(NamedTuple):
    """A message in its place. `expires_at` is in seconds of the wall clock, infinite for never.

    `delivery_count` is how often it has come back, and `turn` which of those that wait again it is, 0 for none.
    `size` is that of the body of one that is `DAMAGED`.
    """

    position: int
    expires_at: float
    delivery_count: int
    message: Message
    turn: int = 0
    size: int = 0


def pack(message: Message) -> bytes:
    """Encode a message for storage: lengths of exchange, key and header, the number of more keys, then all of these."""
    exchange, key = encoded(message.exchange), encoded(message.routing_key)
    more_keys = message.more_keys
    sizes = len(exchange), len(key), len(message.header), len(more_keys)
    if sizes[0] >= _WIDE or sizes[1] > _WIDE or sizes[3] > _WIDE:
        lengths = _WIDE_LENGTHS.pack(_WIDE, *sizes)
    else:
        lengths = _LENGTHS.pack(*sizes)
    if not more_keys:
        return b"".join((lengths, exchange, key, message.header, message.body))
    keys = [encoded(each) for each in more_keys]
    more = b"".join(len(each).to_bytes(4, "big") + each for each in keys)
    return b"".join((lengths, exchange, key, message.header, more, message.body))


def unpack(content: bytes) -> Message:
    """Decode the output of `pack`; raise `ValueError` or `struct.error` for other bytes."""
    exchange, key, header, more = _LENGTHS.unpack_from(content)
    at = _LENGTHS.size
    if exchange == _WIDE:
        _, exchange, key, header, more = _WIDE_LENGTHS.unpack_from(content)
        at = _WIDE_LENGTHS.size
    if at + exchange + key + header + 4 * more > len(content):
        raise ValueError("cut short")
    parts = []
    for length in (exchange, key, header):
        parts.append(content[at : at + length])
        at += length
    keys = []
    for _ in range(more):
        length = int.from_bytes(content[at : at + 4], "big")
        keys.append(decoded(content[at + 4 : at + 4 + length]))
        at += 4 + length
    return Message(decoded(parts[0]), decoded(parts[1]), parts[2], content[at:], None, tuple(keys))


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
