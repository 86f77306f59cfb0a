"""Commands of AMQP 0-10 as a peer may send them at random, on channels whose frames interleave."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionSync, MessageAccept, MessageFlow, MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import ConnectionHeartbeat, SessionCompleted, SessionFlush
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.amqp010.sequence import SequenceSet

SIZES = (0, 1, 10, 700, 5000)
"""Bytes of a body."""


def frames_of(data: bytes) -> list[bytes]:
    """The frames that lie in bytes one after the other."""
    found, at = [], 0
    while at < len(data):
        end = at + int.from_bytes(data[at + 2 : at + 4])
        found.append(data[at:end])
        at = end
    return found


def random_amqp010_commands(
    dice: Random, sizes: Sequence[int] = SIZES, channels: Sequence[int] = (1, 2), most: int = 6, frame_max: int = 1000
) -> bytes:
    """A few commands on each channel, at `most` so many: transfers, settlements, and others; controls among them."""
    lanes: list[list[bytes]] = []
    for channel in channels:
        commands, controls = bytearray(), bytearray()
        for _ in range(dice.randint(1, most)):
            first = dice.randint(0, 99)
            ids = SequenceSet([(first, first + dice.randint(0, 3))])
            chance = dice.random()
            if chance < 0.2:
                controls += encode_method(channel, SessionCompleted(ids))
            elif chance < 0.25:
                controls += encode_method(channel, SessionFlush(completed=True))
            elif chance < 0.45:
                other = dice.choice(
                    [MessageAccept(ids), MessageFlow("d", 0, 9), ExecutionSync(), QueueDeclare("q" * 90)]
                )
                commands += Assembly(channel, other, None, None).encode(dice.choice([60, frame_max]))
            else:
                header = Header((DeliveryProperties(routing_key="k"),)) if dice.random() < 0.9 else None
                body = dice.randbytes(dice.choice(sizes)) or None
                transfer = MessageTransfer("x", dice.randint(0, 1), 0)
                commands += Assembly(channel, transfer, header, body).encode(dice.choice([200, frame_max]))
        lanes += [frames_of(bytes(commands)), frames_of(bytes(controls))]
    out = bytearray()
    while any(lanes):
        out += dice.choice([each for each in lanes if each]).pop(0)
        if dice.random() < 0.1:
            out += encode_method(0, ConnectionHeartbeat())
    return bytes(out)
