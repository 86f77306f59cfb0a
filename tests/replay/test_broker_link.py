"""The socket of a replay's connection, whichever protocol it speaks."""

from __future__ import annotations

import pytest

from amqproxy.replay.broker_link import BrokerLink, Life, ReplayedStream
from amqproxy.replay.deliveries import DeliveryBoard
from amqproxy.replay.names import SharedNames
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.target import Target


class Link(BrokerLink):
    """A connection over a protocol without a word."""

    received = 0
    _heartbeat = 0.0
    _is_entering = False
    _masked = staticmethod(bytes)

    def _greet(self) -> None: ...
    def _feed(self, data: bytes) -> None: ...
    def _send_heartbeat(self) -> None: ...
    def _ask_for_end(self) -> None: ...
    def _send(self, channel: int, method: object) -> None: ...
    def _end_channels(self) -> None: ...


@pytest.fixture
def link() -> Link:
    replayed = ReplayedStream(7, "a-b", Target(), SharedNames(), DeliveryBoard(), ReplayResult())
    found = Link(replayed, wake=lambda: None)
    assert (found.stream, found.connection, found.life) == (7, "a-b", Life.NEW)
    return found


def test_a_broker_that_is_not_there(link: Link) -> None:
    link.failed("refused", 1.0)
    assert (link.life, link.error) == (Life.ENDED, "refused")


def test_a_broker_that_goes(link: Link) -> None:
    link.life = Life.CONNECTED
    link.receive_end("", 1.0)
    assert (link.life, link.error) == (Life.ENDED, "the broker closed the connection")


def test_a_fault_closes_the_socket_and_is_reported(link: Link) -> None:
    link.life = Life.CONNECTED
    link.fault("it speaks in riddles")
    assert (link.ending, link.error) == ("close", "it speaks in riddles")
    (difference,) = link._result.differences
    assert "riddles" in str(difference)
