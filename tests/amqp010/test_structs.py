"""Behaviour that all structs share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from amqproxy.amqp010 import wire
from amqproxy.amqp010.domains import DeliveryMode, DeliveryPriority
from amqproxy.amqp010.errors import CommandInvalid
from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties
from amqproxy.amqp010.results import CommandFragment, QueueQueryResult
from amqproxy.amqp010.sequence import ByteRanges
from amqproxy.amqp010.structs import BY_CODE, BY_NAME
from tests.amqp010 import strategies


@given(strategies.structs)
def test_they_come_back_as_they_were(struct: Any) -> None:
    data = struct.encode()
    assert wire.decode_structs(data) == (struct,)


def test_those_with_a_code_are_among_those_with_a_name() -> None:
    assert set(BY_CODE.values()) < set(BY_NAME.values())
    assert {struct.name for struct in BY_NAME.values() if struct.code is None} == {
        "session.command-fragment",
        "message.reply-to",
    }


def test_what_is_there() -> None:
    properties = DeliveryProperties(immediate=True, priority=0, routing_key="")
    assert properties.present() == {"immediate": True, "priority": 0, "routing_key": ""}
    assert properties.absent == ("delivery_mode",)
    assert MessageProperties().present() == {}


def test_what_the_annotations_say() -> None:
    assert DeliveryProperties.choices == {"priority": DeliveryPriority, "delivery_mode": DeliveryMode}
    assert QueueQueryResult.required == ("queue", "message_count", "subscriber_count")
    assert DeliveryProperties.fields == DeliveryProperties.__struct_fields__


def test_a_struct_without_packing_flags_has_all_its_fields() -> None:
    fragment = CommandFragment(7, ByteRanges([(0, 9)]))
    data = fragment.encode()
    assert data.hex() == "00000007" + "0010" + "0000000000000000" + "0000000000000009"
    assert CommandFragment.decoder.decode(data, 0, len(data)) == fragment
    with pytest.raises(ValueError, match="missing"):
        CommandFragment(7).encode()
    with pytest.raises(CommandInvalid):
        CommandFragment.decoder.decode(data, 0, 4)
