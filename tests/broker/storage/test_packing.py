"""A message as the disk has it."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.broker.message import Message
from amqproxy.broker.storage.packing import pack, unpack

names = st.binary(max_size=255).map(lambda data: data.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("exchange", "key", "more"), [("x", "k" * 65_536, 0), ("x" * 65_535, "", 1), ("x" * 100_000, "k" * 70_000, 70_000)]
)
def test_names_of_any_length(exchange: str, key: str, more: int) -> None:
    """A dead letter's key may be longer than any that a client can publish with."""
    message = unpack(pack(Message(exchange, key, b"h", b"body", None, more * ("c",))))
    assert (message.exchange, message.routing_key, message.header, message.body) == (exchange, key, b"h", b"body")
    assert message.more_keys == more * ("c",)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_message(data: bytes) -> None:
    with suppress(ValueError, struct.error):
        unpack(data)


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
