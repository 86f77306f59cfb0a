"""Commands as a peer may send them at random, on channels whose contents interleave."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from amqproxy.amqp091.frame import BODY, HEADER, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish
from amqproxy.amqp091.properties import ContentHeader
from tests.transcripts.words import octets

SIZES = (0, 1, 10, 700, 5000)
"""Bytes of a body."""


def random_commands(
    dice: Random, is_server: bool, sizes: Sequence[int] = SIZES, channels: Sequence[int] = (1, 2), most: int = 6
) -> bytes:
    """A few commands on each channel, at `most` so many: publishes or deliveries, acknowledgements, heartbeats."""
    frames: list[list[bytes]] = []
    for channel in channels:
        mine = []
        for _ in range(dice.randint(1, most)):
            body = dice.randbytes(dice.choice(sizes))
            if dice.random() < 0.3:
                mine.append(encode_method(channel, BasicAck(dice.randint(1, 99))))
                continue
            method = BasicDeliver("tag", 1, False, "", "key") if is_server else BasicPublish(routing_key="key")
            mine += [encode_method(channel, method), encode_frame(HEADER, channel, ContentHeader(len(body)).encode())]
            half = dice.randint(0, len(body))
            mine += [encode_frame(BODY, channel, part) for part in (body[:half], body[half:]) if part]
        frames.append(mine)
    out = bytearray()
    while any(frames):
        mine = dice.choice([each for each in frames if each])
        out += mine.pop(0)
        if dice.random() < 0.1:
            out += octets("heartbeat")
    return bytes(out)
