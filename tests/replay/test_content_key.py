"""The keys of messages that AMQP 0-10 has, and that 0-9-1 cannot hold."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.properties import Header, MessageProperties, ReplyTo
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.peer import SERVER
from amqproxy.replay.content_key import content_key


def key_of(properties: MessageProperties) -> bytes:
    view = command_view(SERVER, Assembly(1, MessageTransfer("c", 0, 0), Header((properties,)), b"hello"))
    assert view is not None
    return content_key(view)


@pytest.mark.parametrize("size", [255, 256, 60_000])
def test_texts_may_be_longer_than_those_of_0_9_1(size: int) -> None:
    one, other = b"x" * size, b"x" * (size - 1) + b"y"
    assert key_of(MessageProperties(correlation_id=one)) == key_of(MessageProperties(correlation_id=one))
    assert key_of(MessageProperties(correlation_id=one)) != key_of(MessageProperties(correlation_id=other))
    assert key_of(MessageProperties(app_id=one)) != key_of(MessageProperties(user_id=one))


def test_so_may_addresses() -> None:
    keys = {key_of(MessageProperties(reply_to=ReplyTo("e" * 200, each * 200))) for each in "ab"}
    assert len(keys) == 2
