"""Identity of a message's content: the definition of alike messages, shared by live linking and the pipeline.

A message is recognised by its message_id and size. Without a message_id, by its exchange, routing key, those properties
that brokers pass on unchanged, and body. Headers are left out: brokers add to them.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from amqproxy.taps.trace.events import MessageDelivered, MessagePublished, MessageReturned

ContentEvent: TypeAlias = MessagePublished | MessageDelivered | MessageReturned

ID_FIELDS = ("message_id", "size")
"""Fields that identify a message with a message_id, in a virtual host."""

CONTENT_PROPERTIES = ("content_type", "content_encoding", "correlation_id", "type", "app_id")
"""Properties that brokers pass on unchanged; reply_to is not among them: RabbitMQ rewrites that of direct replies."""

CONTENT_FIELDS = ("exchange", "routing_key", *CONTENT_PROPERTIES, "digest")
"""Fields that identify a message without a message_id, in a virtual host; `digest` is that of the body."""


class MessageKey(msgspec.Struct, frozen=True, gc=False):
    """Key of alike messages, for the lifetime of the process.

    `is_certain` is whether unlike messages have different keys: not if only the beginning of the body is known.
    """

    number: int
    is_by_id: bool
    is_certain: bool = True


def message_key(
    event: ContentEvent, virtual_host: str | None, exchange: str | None = None, routing_key: str | None = None
) -> MessageKey | None:
    """Return the key of a message; `None` if nothing of its content is known.

    `exchange` and `routing_key` replace those of the event: a dead letter has those that it was published with in its
    headers.
    """
    properties = event.properties
    message_id = properties.message_id
    if message_id:
        return MessageKey(hash((virtual_host, message_id, event.size)), is_by_id=True)
    if event.size is None:
        return None
    body = event.body
    is_whole = len(body) == event.size
    content = body if is_whole else event.digest or body
    method = event.method
    number = hash(
        (
            virtual_host,
            method.exchange if exchange is None else exchange,
            method.routing_key if routing_key is None else routing_key,
            properties.content_type,
            properties.content_encoding,
            properties.correlation_id,
            properties.type,
            properties.app_id,
            event.size,
            content,
        )
    )
    return MessageKey(number, is_by_id=False, is_certain=is_whole or bool(event.digest))
