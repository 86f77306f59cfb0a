"""Message properties: the structs of a header segment (section 5.9.1)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from amqproxy.amqp010.domains import DeliveryMode, DeliveryPriority
from amqproxy.amqp010.fields import Bit, Datetime, Map, Required, Str8, Str16, Uint8, Uint64, Uuid, Vbin16
from amqproxy.amqp010.structs import Struct, struct


@struct("message.delivery-properties", code=0x0401, size=4, pack=2)
class DeliveryProperties(Struct, frozen=True):
    """Properties for the broker, which may change them."""

    discard_unroutable: Bit = False
    immediate: Bit = False
    redelivered: Bit = False
    priority: Required[Annotated[Uint8, DeliveryPriority]] = None
    delivery_mode: Required[Annotated[Uint8, DeliveryMode]] = None
    ttl: Uint64 | None = None
    timestamp: Datetime | None = None
    expiration: Datetime | None = None
    exchange: Str8 | None = None
    routing_key: Str8 | None = None
    resume_id: Str16 | None = None
    resume_ttl: Uint64 | None = None


@struct("message.fragment-properties", code=0x0402, size=4, pack=2)
class FragmentProperties(Struct, frozen=True):
    """Position of a transfer in a message that consists of several."""

    first: Bit = True
    last: Bit = True
    fragment_size: Uint64 | None = None


@struct("message.reply-to", size=2, pack=2)
class ReplyTo(Struct, frozen=True):
    """Address for the reply to a message."""

    exchange: Str8 | None = None
    routing_key: Str8 | None = None


@struct("message.message-properties", code=0x0403, size=4, pack=2)
class MessageProperties(Struct, frozen=True):
    """Properties set by the publisher, which no broker changes."""

    content_length: Uint64 | None = None
    message_id: Uuid | None = None
    correlation_id: Vbin16 | None = None
    reply_to: ReplyTo | None = None
    content_type: Str8 | None = None
    content_encoding: Str8 | None = None
    user_id: Vbin16 | None = None
    app_id: Vbin16 | None = None
    application_headers: Map | None = None


@struct("file.file-properties", code=0x0901, size=4, pack=2)
class FileProperties(Struct, frozen=True):
    """The properties of a file."""

    content_type: Str8 | None = None
    content_encoding: Str8 | None = None
    headers: Map | None = None
    priority: Uint8 | None = None
    reply_to: Str8 | None = None
    message_id: Str8 | None = None
    filename: Str8 | None = None
    timestamp: Datetime | None = None
    cluster_id: Str8 | None = None


@struct("stream.stream-properties", code=0x0A01, size=4, pack=2)
class StreamProperties(Struct, frozen=True):
    """Properties of a stream message."""

    content_type: Str8 | None = None
    content_encoding: Str8 | None = None
    headers: Map | None = None
    priority: Uint8 | None = None
    timestamp: Datetime | None = None


class Header(msgspec.Struct, frozen=True, gc=False):
    """A header segment: structs with a code, each of another type, in wire order.

    Unknown ones are kept as `UnknownStruct`.
    """

    entries: tuple[Any, ...] = ()

    @property
    def delivery(self) -> DeliveryProperties | None:
        """The delivery-properties, if present."""
        return next((entry for entry in self.entries if type(entry) is DeliveryProperties), None)

    @property
    def message(self) -> MessageProperties | None:
        """The message-properties, if present."""
        return next((entry for entry in self.entries if type(entry) is MessageProperties), None)

    @property
    def fragment(self) -> FragmentProperties | None:
        """The fragment-properties, if present; without them, a transfer is a whole message."""
        return next((entry for entry in self.entries if type(entry) is FragmentProperties), None)

    def encode(self) -> bytes:
        """Return the segment."""
        return b"".join([entry.encode() for entry in self.entries])

    def replacing(self, entry: Any) -> Header:
        """Return the header with `entry` in place of the one of its type, or appended."""
        kept = [entry if type(each) is type(entry) else each for each in self.entries]
        return Header((*kept, *(() if entry in kept else (entry,))))


NO_PROPERTIES = Header()
