"""A message as the disk has it."""

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.broker.message import Message
from amqproxy.broker.packing import pack, unpack

names = st.binary(max_size=255).map(lambda octets: octets.decode("utf-8", "surrogateescape"))


@given(names, names, st.binary(), st.binary(), st.lists(names).map(tuple))
def test_what_is_packed_is_what_is_unpacked(
    exchange: str, key: str, header: bytes, body: bytes, more_keys: tuple[str, ...]
) -> None:
    message = unpack(pack(Message(exchange, key, header, body, None, more_keys)))
    assert (message.exchange, message.routing_key, message.header, message.body, message.more_keys) == (
        exchange,
        key,
        header,
        body,
        more_keys,
    )
