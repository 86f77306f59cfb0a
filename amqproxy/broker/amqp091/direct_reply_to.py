"""Direct reply-to: replies go straight to the requesting channel, without a queue.

A client consumes from the name below and publishes with it as its reply-to, which the broker replaces with a name that
is unique to the channel. Others may publish to that name through the default exchange while the consumer exists.
"""

from __future__ import annotations

import secrets
import struct
from base64 import b64encode

import msgspec

from amqproxy.amqp091.properties import Properties

NAME = "amq.rabbitmq.reply-to"
PREFIX = NAME + "."


_PROCESS = struct.Struct(">BBBH14sIII")
"""An Erlang process identifier in external term format: RabbitMQ names the process that gets the replies by it."""


def new_name() -> str:
    """Return an unguessable name for one channel's reply consumer, in RabbitMQ's format."""
    number = secrets.randbits(27)
    process = _PROCESS.pack(131, ord("X"), ord("v"), 14, b"reply@%08d" % (number % 10**8), number, 0, 0)
    return f"{PREFIX}{b64encode(process).decode()}.{b64encode(secrets.token_bytes(16)).decode()}"


def is_reply_name(name: str) -> bool:
    """Whether the name belongs to direct reply-to and not to a queue."""
    return name.startswith(NAME) and (len(name) == len(NAME) or name.startswith(PREFIX))


def addressed(properties: Properties, name: str) -> Properties:
    """Return the properties of a request with the requesting channel's reply name as `reply_to`."""
    return msgspec.structs.replace(properties, reply_to=name)
