"""Identity of messages: the message-id, else everything that the publisher set."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Array, Item, Table

OF_THE_RUN = ("x-delivery-count",)
"""Headers that a broker sets anew for each delivery."""

MADE_UP = ("amq.gen-", "amq.rabbitmq.reply-to.")
"""Prefixes of names that a broker generates, all of which count as equal."""

MAX_TEXT = 255
"""Size limit in bytes of a text in 0-9-1 properties."""

_DIGEST_BYTES = 16


def content_key(command: Command) -> bytes:
    """Return a key that messages of equal content share, whichever method carries them.

    Names that a broker generated are ignored.
    """
    properties = command.properties
    if properties.message_id:
        return b"id " + properties.message_id.encode("utf-8", "surrogateescape")
    method: Any = command.method
    body = command.body
    key = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for name in (method.exchange, method.routing_key):
        text = b"amq." if name.startswith(MADE_UP) else name.encode("utf-8", "surrogateescape")
        key.update(len(text).to_bytes(2))
        key.update(text)
    if properties.reply_to and properties.reply_to.startswith(MADE_UP):
        properties = msgspec.structs.replace(properties, reply_to="amq.")
    properties = without_times(properties, drop=OF_THE_RUN)
    try:
        header = ContentHeader(len(body), properties).encode()
    except ValueError:  # the 0-9-1 view of another protocol's message, whose texts may be longer
        header = ContentHeader(len(body), _with_short_texts(properties)).encode()
    key.update(header)
    key.update(body)
    return key.digest()


def without_times(properties: Properties, drop: tuple[str, ...] = ()) -> Properties:
    """Return the properties without the parts that differ in every run: times of death, and headers in `drop`."""
    headers = properties.headers
    if not headers or not ("x-death" in headers or any(name in headers for name in drop)):
        return properties
    fields = [
        field._replace(value=_without_time_of_death(field.value)) if field.name == "x-death" else field
        for field in headers.fields
        if field.name not in drop
    ]
    return msgspec.structs.replace(properties, headers=Table(fields) if fields else None)


def _with_short_texts(properties: Properties) -> Properties:
    """Return the properties with digests in place of texts that are too long for 0-9-1."""
    digests = {}
    for name, value in properties.present().items():
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else b""
        if len(data) > MAX_TEXT:
            digests[name] = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    return msgspec.structs.replace(properties, **digests)


def _without_time_of_death(deaths: Any) -> Any:
    if not isinstance(deaths, Array):
        return deaths
    return Array(
        Item(item.type, Table(each for each in item.value.fields if each.name != "time"))
        if isinstance(item.value, Table)
        else item
        for item in deaths.items
    )
