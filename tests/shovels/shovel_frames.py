"""Frames of messages, and the shovels that forward them."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import BasicDeliver, Method
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.shovels.definition import Shovel, parse_shovel


def frames_of(data: bytes) -> list[Frame]:
    """Cut bytes into frames."""
    found = []
    while data:
        end = 8 + int.from_bytes(data[3:7])
        found.append(Frame(data[:end]))
        data = data[end:]
    return found


def delivery(tag: int, body: bytes = b"body", properties: Properties = NO_PROPERTIES) -> list[Frame]:
    return frames_of(Command(1, BasicDeliver("c", tag, False, "x", "k"), properties, body).encode(0))


def methods(*methods: Method, channel: int = 1) -> list[Frame]:
    return [Frame(encode_method(channel, each)) for each in methods]


def shovel_of(**changed: Any) -> Shovel:
    """A shovel from the queue a to the queue b of this broker; `None` leaves a key out."""
    value = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    value |= {name.replace("_", "-"): each for name, each in changed.items()}
    return parse_shovel("v", "s", {name: each for name, each in value.items() if each is not None}, "cluster")
