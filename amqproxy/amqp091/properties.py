"""Content header: body size and message properties (section 4.2.6)."""

from __future__ import annotations

from typing import Any, ClassVar, get_type_hints

import msgspec
from msgspec.structs import astuple

from amqproxy.amqp091.methods import FieldTable, LongLong, Octet, ShortStr
from amqproxy.amqp091.wire import StructDecoder, encode_fields, encode_flagged


class Properties(msgspec.Struct, frozen=True, gc=False):
    """Properties of class basic, `None` if missing (section 1.8.1).

    `timestamp` is in seconds since 1970; `cluster_id` is the field that the specification reserves.
    """

    content_type: ShortStr | None = None
    content_encoding: ShortStr | None = None
    headers: FieldTable | None = None
    delivery_mode: Octet | None = None
    priority: Octet | None = None
    correlation_id: ShortStr | None = None
    reply_to: ShortStr | None = None
    expiration: ShortStr | None = None
    message_id: ShortStr | None = None
    timestamp: LongLong | None = None
    type: ShortStr | None = None
    user_id: ShortStr | None = None
    app_id: ShortStr | None = None
    cluster_id: ShortStr | None = None

    layout: ClassVar[bytes]

    def present(self) -> dict[str, Any]:
        """Return the present properties by name."""
        if self is NO_PROPERTIES:
            return {}
        return {field: value for field, value in zip(_FIELDS, astuple(self), strict=True) if value is not None}


def _layout(cls: type[Properties]) -> bytes:
    hints = get_type_hints(cls, include_extras=True)
    wire_types = [hints[field].__args__[0].__metadata__[0] for field in cls.__struct_fields__]
    return "".join(wire_types).encode()


Properties.layout = _layout(Properties)

PROPERTIES = StructDecoder(Properties, Properties.layout)
"""Decoder of the properties in a content header."""

_FIELDS = Properties.__struct_fields__
NO_PROPERTIES = Properties()


class ContentHeader(msgspec.Struct, frozen=True, gc=False):
    """Content header after a method: the body size and the properties.

    `weight` is always 0; it is reserved for a feature that was never specified.
    """

    body_size: LongLong
    properties: Properties = NO_PROPERTIES
    class_id: int = 60
    weight: int = 0

    def encode(self) -> bytes:
        """Return the payload of the header frame."""
        head = encode_fields(_FIXED, (self.class_id, self.weight, self.body_size))
        return head + encode_flagged(Properties.layout, astuple(self.properties))


_FIXED = b"hhq"
