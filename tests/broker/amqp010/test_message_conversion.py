"""Properties from one protocol to the other and back: what 0-10 has comes back whole, and 0-9-1's does."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties
from amqproxy.amqp010.wire import Map, UnknownStruct
from amqproxy.amqp091.frame import HEADER, Frame, encode_frame
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Array, Field, Table
from amqproxy.broker.amqp010.message_conversion import ORIGINAL, properties_of, structs_of
from tests.broker.amqp010.message_samples import MESSAGES, PROPERTIES, UUID_


@pytest.mark.parametrize("structs", MESSAGES.values(), ids=MESSAGES.keys())
def test_0_10_comes_back_as_it_was(structs: tuple[Any, ...]) -> None:
    properties = properties_of(structs)
    assert Frame(encode_frame(HEADER, 1, ContentHeader(0, properties).encode())).header.properties == properties
    delivery, message, others = structs_of(properties)
    expected = {type(each): each for each in (DeliveryProperties(), MessageProperties(), *structs)}
    assert delivery == expected[DeliveryProperties]
    assert message == expected[MessageProperties]
    assert others == tuple(each for each in structs if isinstance(each, UnknownStruct))


@pytest.mark.parametrize("name", ["ids", "every type", "reply-to", "an unknown struct"])
def test_what_0_9_1_cannot_express_is_in_one_header(name: str) -> None:
    headers = properties_of(MESSAGES[name]).headers
    assert headers is not None
    assert ORIGINAL in headers


@pytest.mark.parametrize("name", ["nothing", "content", "delivery", "an empty map"])
def test_and_nothing_else_is(name: str) -> None:
    headers = properties_of(MESSAGES[name][:1]).headers
    assert headers is None or name in ("delivery", "an empty map")


@pytest.mark.parametrize("properties", PROPERTIES.values(), ids=PROPERTIES.keys())
def test_0_9_1_comes_back_as_it_was(properties: Properties) -> None:
    delivery, message, _ = structs_of(properties)
    back = properties_of((delivery, message))
    headers = back.headers
    known = () if properties.headers is None else properties.headers.fields
    assert tuple(each for each in (headers or Table()).fields if each.name in {each.name for each in known}) == known
    for name in Properties.__struct_fields__:
        if name != "headers":
            assert getattr(back, name) == getattr(properties, name), name


def test_what_has_changed_meanwhile_counts() -> None:
    properties = properties_of((MessageProperties(application_headers=Map({"id": UUID_, "k": 1})),))
    assert properties.headers is not None
    fields = [each for each in properties.headers.fields if each.name != "id"]
    changed = Properties(headers=Table([Field("id", "S", "other"), Field("x-death", "A", Array()), *fields]))
    _, message, _ = structs_of(changed)
    assert dict(message.application_headers or {}) == {"id": "other", "x-death": [], "k": 1}


def test_a_header_that_a_0_9_1_client_has_made_up_is_left_out() -> None:
    properties = Properties(headers=Table([Field(ORIGINAL, "x", b"\x00\x00\x00\x09rubbish"), Field("k", "I", 1)]))
    _, message, others = structs_of(properties)
    assert dict(message.application_headers or {}) == {"k": 1}
    assert others == ()
