"""Properties of messages of both protocols, of every kind that one of them has."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties, ReplyTo
from amqproxy.amqp010.wire import Array as Array010
from amqproxy.amqp010.wire import Entry, List, Map, UnknownStruct
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table

UUID_ = UUID("3f2504e0-4f89-11d3-9a0c-0305e82c3301")

EVERY_TYPE = Map(
    [
        Entry("int8", "int8", -1),
        Entry("uint8", "uint8", 255),
        Entry("int16", "int16", -2),
        Entry("uint16", "uint16", 65_535),
        Entry("int32", "int32", -3),
        Entry("uint32", "uint32", 4_000_000_000),
        Entry("int64", "int64", -4),
        Entry("uint64", "uint64", 2**64 - 1),
        Entry("small uint64", "uint64", 5),
        Entry("float", "float", 0.5),
        Entry("double", "double", 0.25),
        Entry("boolean", "boolean", True),
        Entry("char", "char", "c"),
        Entry("char-utf32", "char-utf32", "\u20ac"),
        Entry("datetime", "datetime", 1_700_000_000_000),
        Entry("uuid", "uuid", UUID_),
        Entry("bin8", "bin8", b"x"),
        Entry("bin1024", "bin1024", bytes(128)),
        Entry("vbin8", "vbin8", b"\xff"),
        Entry("vbin16", "vbin16", b"\xff\xfe"),
        Entry("vbin32", "vbin32", b""),
        Entry("str8", "str8", "text"),
        Entry("str8-latin", "str8-latin", "\u00e9"),
        Entry("str16", "str16", "text"),
        Entry("str16-utf16", "str16-utf16", "text"),
        Entry("dec32", "dec32", Decimal("-1.25")),
        Entry("dec64", "dec64", Decimal("12345678901.5")),
        Entry("void", "void", None),
        Entry("map", "map", Map({"in": Map({"deep": UUID_})})),
        Entry("list", "list", List([1, "two", [3.0]])),
        Entry("array", "array", Array010("uint16", [1, 2])),
        Entry("struct32", "struct32", UnknownStruct(0x7777, b"x")),
    ]
)

MESSAGES = {
    "nothing": (),
    "ids": (MessageProperties(message_id=UUID_, correlation_id=b"\xff\x00", user_id=b"guest", app_id=b"a" * 300),),
    "reply-to": (MessageProperties(reply_to=ReplyTo("amq.direct", "key")),),
    "reply-to a queue": (MessageProperties(reply_to=ReplyTo(None, "q")),),
    "content": (MessageProperties(content_type="text/plain", content_encoding="gzip"),),
    "every type": (MessageProperties(application_headers=EVERY_TYPE),),
    "an empty map": (MessageProperties(application_headers=Map()),),
    "a type of JMS": (MessageProperties(application_headers=Map({"x-jms-type": "t", "k": 1})),),
    "delivery": (
        DeliveryProperties(priority=9, delivery_mode=2, ttl=5, timestamp=1_700_000_000_123, redelivered=True),
    ),
    "seconds": (DeliveryProperties(timestamp=1_700_000_000),),
    "before 1970": (
        DeliveryProperties(timestamp=-7),
        MessageProperties(application_headers=Map([Entry("born", "datetime", -7)])),
    ),
    "half a pair": (
        MessageProperties(
            application_headers=Map([Entry("a", "str16-utf16", "\ud800"), Entry("b", "char-utf32", "\udfff")])
        ),
    ),
    "resume": (DeliveryProperties(resume_id="r", resume_ttl=7),),
    "an unknown struct": (DeliveryProperties(priority=1), UnknownStruct(0x7777, b"data")),
}

PROPERTIES = {
    "all": Properties(
        content_type="text/plain",
        content_encoding="utf-8",
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="q",
        expiration="1000",
        message_id="not a uuid",
        timestamp=1_700_000_000,
        type="order",
        user_id="guest",
        app_id="app",
        cluster_id="cluster",
    ),
    "headers": Properties(
        headers=Table(
            [
                Field("t", "t", False),
                Field("b", "b", -1),
                Field("B", "B", 1),
                Field("s", "s", -1),
                Field("u", "u", 1),
                Field("I", "I", -1),
                Field("i", "i", 1),
                Field("l", "l", -1),
                Field("f", "f", 0.5),
                Field("d", "d", 0.5),
                Field("D", "D", Decimal("1.25")),
                Field("D large", "D", Decimal(-2_000_000_000)),
                Field("S", "S", "text"),
                Field("x", "x", b"\x00"),
                Field("T", "T", 1_700_000_000),
                Field("A", "A", Array([Item("S", "a"), Item("I", 1)])),
                Field("F", "F", Table({"k": "v"})),
                Field("V", "V", None),
            ]
        )
    ),
    "uuid": Properties(message_id=str(UUID_)),
}
