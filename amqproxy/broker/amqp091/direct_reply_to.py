"""Direct reply-to: answers go to the channel that asked, and no queue is made for them.

A client consumes from the name below and publishes with it as its reply-to; what it publishes then bears a name of its
channel's own, to which others may publish through the default exchange for as long as that consumer is there.
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
"""A process as Erlang writes it: RabbitMQ's name of the process that gets the answers."""


def new_name() -> str:
    """The name of one channel's consumer, in RabbitMQ's shape; it cannot be guessed."""
    number = secrets.randbits(27)
    process = _PROCESS.pack(131, ord("X"), ord("v"), 14, b"reply@%08d" % (number % 10**8), number, 0, 0)
    return f"{PREFIX}{b64encode(process).decode()}.{b64encode(secrets.token_bytes(16)).decode()}"


def is_reply_name(name: str) -> bool:
    """Does the name belong to direct reply-to, and to no queue?"""
    return name.startswith(NAME) and (len(name) == len(NAME) or name.startswith(PREFIX))


def addressed(properties: Properties, name: str) -> Properties:
    """The properties of a request, with the asking channel's own name in them."""
    return msgspec.structs.replace(properties, reply_to=name)
