"""What is remembered beside the messages."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.broker.storage.definition_records import (
    AnyDurable,
    DurableBinding,
    DurableExchange,
    DurableParameter,
    DurablePermission,
    DurablePolicy,
    DurableQueue,
    DurableSegment,
    DurableTopicPermission,
    DurableUser,
    DurableVhost,
    UnreadableRecord,
    decode,
    encode,
    key,
)

ODD = b"\xff\x00caf\xc3\xa9".decode("utf-8", "surrogateescape")

ONE_OF_EACH: list[AnyDurable] = [
    DurableVhost(name="/", description="d", tags=("a",), limits={"max-queues": 5}, is_traced=True),
    DurableExchange(vhost="/", name=ODD, type="topic", internal=True, arguments=b"\x01\xff"),
    DurableQueue(vhost="/", name=ODD, auto_delete=True, arguments=b"\x00"),
    DurableBinding(
        vhost="/", source="x", destination_type="queue", destination="q", routing_key=ODD, arguments=b"\xfe"
    ),
    DurableSegment(vhost="/", stream=ODD, first=7, end=10**12, octets=5, last_time=1234567890.123),
    DurableUser(name="u", password_hash="h", hashing_algorithm="a", tags=("t",), limits={}, only_from_loopback=True),
    DurablePermission(user="u", vhost="/", configure=".*", write="", read="^$"),
    DurableTopicPermission(user="u", vhost="/", exchange="x", write="w", read="r"),
    DurablePolicy(
        vhost="/", level="policy", name="p", pattern=".", definition={"max-length": 1, "x": "y"}, priority=-1
    ),
    DurableParameter(vhost="", component="c", name="n", value={"a": [1, None, 2.5, "b"]}),
]


@pytest.mark.parametrize("durable", ONE_OF_EACH, ids=lambda durable: type(durable).__name__)
def test_each_comes_back(durable: AnyDurable) -> None:
    assert decode(encode(durable)) == durable


def test_keys() -> None:
    assert len({durable.key for durable in ONE_OF_EACH}) == len(ONE_OF_EACH)
    assert DurableQueue(vhost="/", name="q").key == key(DurableQueue, "/", "q")
    assert DurableQueue(vhost="/", name="q", arguments=b"1").key == DurableQueue(vhost="/", name="q").key
    assert DurableQueue(vhost="/", name="q").key != DurableExchange(vhost="/", name="q", type="direct").key


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"{}", b'{"kind": "Other"}', b'{"kind": "DurableQueue"}', b"[]", b"\xff", b"[" * 100_000],
    ids=range(8),
)
def test_what_is_none_of_these(data: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode(data)


@given(st.binary())
def test_rubbish_is_refused_in_one_way(data: bytes) -> None:
    with suppress(UnreadableRecord):
        decode(data)
