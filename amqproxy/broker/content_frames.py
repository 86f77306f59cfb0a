"""The octets of a content, from parts that are there already: the broker's way out."""

from __future__ import annotations

import struct

from amqproxy.amqp091.frames import FRAME_END
from amqproxy.amqp091.wire import encode_short_string

_METHOD_HEAD = struct.Struct(">BHI")
_NEXT_HEAD = struct.Struct(">BBHI")
_DELIVER = struct.Struct(">BHIHH")
_TAG = struct.Struct(">QB")
_END = b"\xce"

short_strings: dict[str, bytes] = {}
"""Encoded names of exchanges and routing keys, which come again and again."""

MAX_SHORT_STRINGS = 65_536


def short_string(text: str) -> bytes:
    """`text` as a short string, remembered."""
    octets = short_strings.get(text)
    if octets is None:
        if len(short_strings) >= MAX_SHORT_STRINGS:
            short_strings.clear()
        octets = short_strings[text] = encode_short_string(text)
    return octets


def deliver(
    channel: int,
    consumer_tag: bytes,
    delivery_tag: int,
    is_redelivered: bool,
    exchange: str,
    routing_key: str,
    header: bytes,
    body: bytes,
    frame_max: int,
) -> bytes:
    """The frames of a basic.deliver; `consumer_tag` is a short string already, `header` a payload."""
    exchange_octets, key_octets = short_string(exchange), short_string(routing_key)
    size = len(body)
    head = _DELIVER.pack(1, channel, 13 + len(consumer_tag) + len(exchange_octets) + len(key_octets), 60, 60)
    tag = _TAG.pack(delivery_tag, is_redelivered)
    if size and (not frame_max or size <= frame_max - 8):
        return b"".join(
            (
                head,
                consumer_tag,
                tag,
                exchange_octets,
                key_octets,
                _NEXT_HEAD.pack(FRAME_END, 2, channel, len(header)),
                header,
                _NEXT_HEAD.pack(FRAME_END, 3, channel, size),
                body,
                _END,
            )
        )
    method = b"".join((head, consumer_tag, tag, exchange_octets, key_octets, _END))
    return method + content(channel, header, body, frame_max)


def content(channel: int, header: bytes, body: bytes, frame_max: int) -> bytes:
    """The header's frame and the body's, none over `frame_max` octets."""
    size = len(body)
    head = _METHOD_HEAD.pack(2, channel, len(header))
    if size == 0:
        return b"".join((head, header, _END))
    step = frame_max - 8 if frame_max else size
    if size <= step:
        return b"".join((head, header, _END, _METHOD_HEAD.pack(3, channel, size), body, _END))
    parts = [head, header, _END]
    for start in range(0, size, step):
        piece = body[start : start + step]
        parts += (_METHOD_HEAD.pack(3, channel, len(piece)), piece, _END)
    return b"".join(parts)
