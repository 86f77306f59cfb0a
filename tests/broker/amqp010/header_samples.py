"""Headers as one client sends them: alike, but for what is a message's own."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st

from amqproxy.amqp010.frame import decode_header
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties, ReplyTo
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.broker.amqp010.message_conversion import properties_of

TIME = 1_700_000_000_001

times = st.one_of(
    st.none(),
    st.integers(TIME, TIME + 5000),
    st.sampled_from([0, 5, TIME // 1000, 99_999_999_999, 100_000_000_000, 1 << 62, (1 << 63) - 1, -1, -TIME]),
)
ids = st.one_of(st.none(), st.uuids(), st.sampled_from([UUID(int=0), UUID(int=2**128 - 1)]))
deliveries = st.builds(
    DeliveryProperties,
    redelivered=st.booleans(),
    priority=st.sampled_from([None, 4]),
    delivery_mode=st.sampled_from([None, 1]),
    ttl=st.sampled_from([None, None, 5000]),
    timestamp=times,
    routing_key=st.sampled_from(["q", "q", "r"]),
)
messages = st.builds(
    MessageProperties,
    content_length=st.sampled_from([None, 0, 7, 2**64 - 1]),
    message_id=ids,
    correlation_id=st.sampled_from([None, b"\x00", str(UUID(int=0)).encode()]),
    reply_to=st.sampled_from([None, ReplyTo("e", "k")]),
    content_type=st.sampled_from([None, "text/plain", "x-amqp-0-10x"]),
    application_headers=st.sampled_from(
        [None, Map({"a": 1}), Map({"t": TIME // 1000}), Map({"x-amqp-0-9-1.message-id": str(UUID(int=3))})]
    ),
)
headers = st.one_of(
    st.tuples(deliveries, messages),
    st.tuples(messages, deliveries),
    st.tuples(deliveries),
    st.tuples(
        st.builds(DeliveryProperties, timestamp=st.integers(TIME, TIME + 3000), routing_key=st.just("q")),
        st.builds(MessageProperties, content_length=st.just(3), message_id=st.uuids()),
    ),
).map(lambda structs: Header(structs).encode())


def header_of_jms(number: int, key: str = "q") -> Header:
    """The header of one of a JMS client's messages."""
    return Header(
        (
            DeliveryProperties(
                priority=4, delivery_mode=1, timestamp=TIME + 1000 * number, exchange="", routing_key=key
            ),
            MessageProperties(
                content_length=3,
                message_id=UUID(int=0x1234 << 64 | 7919 * number),
                content_type="text/plain",
                user_id=b"guest",
                application_headers=Map({"qpid.subject": "s", "number": 1}),
            ),
        )
    )


def content_header_of(header: bytes, size: int) -> bytes:
    """Return the 0-9-1 translation of a header segment."""
    return ContentHeader(size, properties_of(decode_header(header).entries)).encode()
