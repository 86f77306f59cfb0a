"""A connection that shows the methods that it takes."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.watched_connection import WatchedConnection
from tests.transcripts.words import octets

OPENING = (
    (SERVER, "connection.start"),
    (CLIENT, "connection.start-ok"),
    (SERVER, "connection.tune"),
    (CLIENT, "connection.tune-ok"),
    (CLIENT, "connection.open"),
    (SERVER, "connection.open-ok"),
    (CLIENT, "1: channel.open"),
    (SERVER, "1: channel.open-ok"),
)


@pytest.fixture
def connection() -> WatchedConnection:
    connection = WatchedConnection(initial_frame_max=131_072)
    connection.receive_header(CLIENT, HEADER)
    for sender, words in OPENING:
        connection.receive(sender, Frame(octets(words)))
    return connection


def test_it_shows_what_is_to_be_observed(connection: WatchedConnection) -> None:
    seen: list[tuple[Peer, str]] = []
    connection.on_method = lambda sender, frame: seen.append((sender, frame.method.name))
    for sender, words in (
        (CLIENT, "1: queue.declare"),
        (CLIENT, "1: basic.get"),
        (SERVER, "1: queue.declare-ok"),
        (SERVER, "1: basic.get-empty"),
        (CLIENT, "heartbeat"),
        (CLIENT, "1: channel.close 200"),
        (CLIENT, "1: queue.declare"),
        (SERVER, "1: channel.close-ok"),
    ):
        connection.receive(sender, Frame(octets(words)))
    assert seen == [
        (CLIENT, "queue.declare"),
        (SERVER, "queue.declare-ok"),
        (CLIENT, "channel.close"),
        (SERVER, "channel.close-ok"),
    ]


def test_it_shows_nothing_that_it_does_not_take(connection: WatchedConnection) -> None:
    seen: list[Frame] = []
    connection.on_method = lambda sender, frame: seen.append(frame)
    with pytest.raises(ProtocolError):
        connection.receive(SERVER, Frame(octets("1: queue.declare-ok")))
    connection.on_method = None
    connection.receive(CLIENT, Frame(octets("1: queue.declare")))
    assert seen == []
