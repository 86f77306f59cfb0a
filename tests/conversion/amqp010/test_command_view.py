"""Whole commands of AMQP 0-10 as those that rules judge."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import DtxSelect, MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import ConnectionHeartbeat, ConnectionOpen
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp091.frame import HEARTBEAT
from amqproxy.conversion.amqp010.command_view import HIGHEST_CHANNEL, changed_assembly, command_view
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.peer import CLIENT

HEADER = Header((DeliveryProperties(routing_key="k"), MessageProperties(content_length=5, content_type="text/plain")))
MESSAGE = Assembly(3, MessageTransfer("x", 1, 0), HEADER, b"hello")


def test_a_message() -> None:
    view = command_view(CLIENT, MESSAGE)
    assert view is not None
    assert (view.channel, view.method.exchange, view.method.routing_key) == (3, "x", "k")
    assert (view.properties.content_type, view.body, view.body_size, view.is_complete) == (
        "text/plain",
        b"hello",
        5,
        True,
    )


def test_a_message_whose_body_is_yet_to_come() -> None:
    view = command_view(CLIENT, Assembly(3, MessageTransfer("x", 1, 0), HEADER), body_size=5)
    assert view is not None
    assert (view.body_size, view.is_complete) == (5, False)


def test_channel_0_is_no_session() -> None:
    opened = command_view(CLIENT, Assembly(0, ConnectionOpen("v")))
    declared = command_view(CLIENT, Assembly(0, QueueDeclare("q")))
    assert opened is not None
    assert declared is not None
    assert (opened.channel, declared.channel) == (0, HIGHEST_CHANNEL)


def test_what_has_no_counterpart() -> None:
    assert command_view(CLIENT, Assembly(1, DtxSelect())) is None
    heartbeat = command_view(CLIENT, Assembly(0, ConnectionHeartbeat()))
    assert heartbeat is not None
    assert heartbeat.frames[0].kind == HEARTBEAT
    with pytest.raises(Inexpressible):
        changed_assembly(CLIENT, Assembly(0, ConnectionHeartbeat()), heartbeat, heartbeat)


def test_changes() -> None:
    view = command_view(CLIENT, MESSAGE)
    assert view is not None
    after = view.altered(replace(view.method, exchange="y"), replace(view.properties, priority=1))
    changed = changed_assembly(CLIENT, MESSAGE, view, after)
    assert changed.method == MessageTransfer("y", 1, 0)
    assert changed.delivery_properties == DeliveryProperties(routing_key="k", priority=1)
    assert (changed.properties, changed.body) == (HEADER.message, b"hello")


def test_another_body_has_another_length() -> None:
    view = command_view(CLIENT, MESSAGE)
    assert view is not None
    changed = changed_assembly(CLIENT, MESSAGE, view, view.altered(body=b"longer than it was"))
    assert (changed.body, changed.properties.content_length) == (b"longer than it was", 18)
