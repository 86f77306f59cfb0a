"""Direct reply-to: answers go to the channel that asked, and no queue is made for them.

A client consumes from the name below and publishes with it as its reply-to; what it publishes then bears a name of its
channel's own, to which others may publish through the default exchange for as long as that consumer is there.
"""

from __future__ import annotations

import secrets

import msgspec

from amqproxy.amqp091.properties import Properties

NAME = "amq.rabbitmq.reply-to"
PREFIX = NAME + "."


def new_name() -> str:
    """The name of one channel's consumer; nobody can guess it."""
    return PREFIX + secrets.token_urlsafe(24)


def is_reply_name(name: str) -> bool:
    """Does the name belong to direct reply-to, and to no queue?"""
    return name.startswith(NAME) and (len(name) == len(NAME) or name.startswith(PREFIX))


def addressed(properties: Properties, name: str) -> Properties:
    """The properties of a request, with the asking channel's own name in them."""
    return msgspec.structs.replace(properties, reply_to=name)
