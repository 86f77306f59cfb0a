"""What is known of a client from the name of its connection, and the capabilities that it announces."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import ChannelInfo, Client, CommandContext


@pytest.mark.parametrize(
    ("name", "address", "port", "there"),
    [
        ("10.0.0.1:40000-10.0.0.2:5672", "10.0.0.1", 40000, "10.0.0.2:5672"),
        ("[2001:db8::1]:40000-[2001:db8::2]:5672", "2001:db8::1", 40000, "[2001:db8::2]:5672"),
        ("10.0.0.1:40000", "10.0.0.1", 40000, ""),
        ("10.0.0.1:-10.0.0.2:5672", "10.0.0.1", 0, "10.0.0.2:5672"),
        ("-10.0.0.2:5672", "", 0, "10.0.0.2:5672"),
        ("", "", 0, ""),
    ],
)
def test_the_name_of_a_connection(name: str, address: str, port: int, there: str) -> None:
    expected = Client(session=3, address=address, port=port, listener=there, upstream=there)
    assert Client.named(3, name) == expected


@pytest.mark.parametrize(
    ("properties", "is_announced"),
    [
        ({"capabilities": {"connection.blocked": True}}, True),
        ({"capabilities": {"connection.blocked": False}}, False),
        ({"capabilities": {"connection.blocked": 1}}, False),
        ({"capabilities": {"connection.blocked": "true"}}, False),
        ({"capabilities": {"basic.nack": True}}, False),
        ({"capabilities": {}}, False),
        ({"capabilities": ["connection.blocked"]}, False),
        ({"capabilities": None}, False),
        ({"connection.blocked": True}, False),
        ({}, False),
    ],
)
def test_what_a_client_can_do(properties: dict[str, Any], is_announced: bool) -> None:
    assert Client(properties=properties).announced("connection.blocked") is is_announced


def test_the_sender_of_a_command() -> None:
    command = Command(1, BasicPublish())
    for sender in (CLIENT, SERVER):
        context = CommandContext(sender=sender, command=command, client=Client())
        assert context.is_from_client is (sender is CLIENT)
        assert context.channel == ChannelInfo()
        assert 0.0 <= context.random() < 1.0
