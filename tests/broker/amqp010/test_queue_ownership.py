"""Who owns a queue, by the exclusivity policies of Qpid."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.broker.amqp010.queue_ownership import accessible, is_exclusive, is_local, is_owned, lock, take_up
from amqproxy.broker.amqp010.session import BrokerSession
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import Client010

CONNECTIONS = {"qpid.exclusivity_policy": "CONNECTION", "qpid.lifetime_policy": "DELETE_ON_CONNECTION_CLOSE"}


class Home:
    """A session that has declared the queue `q`, one beside it, and one on another connection."""

    def __init__(self, **options: Any) -> None:
        broker = Broker()
        client, other = Client010(broker).open(), Client010(broker).open()
        owner = client.session(1, b"owner")
        client.session(2, b"sibling")
        other.session(1, b"stranger")
        owner.declare("q", **options)
        self.queue = broker.vhosts["/"].queues["q"]
        sessions = client.connection.channels
        self.owner: BrokerSession = sessions[1]
        self.sibling: BrokerSession = sessions[2]
        self.stranger: BrokerSession = other.connection.channels[1]


@pytest.mark.parametrize(
    ("options", "owns", "may_use"),
    [
        ({}, (False, False, False), (True, True, True)),
        ({"exclusive": True}, (True, False, False), (True, False, False)),
        ({"exclusive": True, "auto_delete": True}, (True, False, False), (True, False, False)),
        ({"arguments": Map(CONNECTIONS)}, (True, True, False), (True, True, False)),
        ({"arguments": Map({"qpid.exclusivity_policy": "SESSION"})}, (True, False, False), (True, False, False)),
        ({"arguments": Map({"qpid.exclusivity_policy": "NONE"})}, (False, False, False), (True, True, True)),
    ],
)
def test_who_owns_and_may_use_it(options: dict[str, Any], owns: tuple[bool, ...], may_use: tuple[bool, ...]) -> None:
    home = Home(**options)
    sessions = home.owner, home.sibling, home.stranger
    assert tuple(is_owned(home.queue, each) for each in sessions) == owns
    assert is_exclusive(home.queue) == any(owns)
    for session, may in zip(sessions, may_use, strict=True):
        if may:
            assert accessible(session, "q") is home.queue
        else:
            with pytest.raises(ProtocolError, match="exclusive access"):
                accessible(session, "q")


def test_only_an_exclusive_queue_without_an_owner_is_taken_up() -> None:
    home = Home(exclusive=True)
    take_up(home.queue, home.stranger)
    assert home.queue.locked_by is home.owner
    home.queue.locked_by = None
    take_up(home.queue, home.stranger)
    assert home.queue.locked_by is home.stranger
    assert home.queue in home.stranger.locked_queues
    shared = Home().queue
    take_up(shared, home.owner)
    assert shared.locked_by is None
    lock(shared, home.owner)
    assert is_owned(shared, home.owner)


@pytest.mark.parametrize(
    ("options", "is_locals"),
    [
        ({"exclusive": True, "arguments": Map({"no-local": "true"})}, (True, True, False)),
        ({"arguments": Map({**CONNECTIONS, "no-local": True})}, (True, True, False)),
        ({"arguments": Map({"no-local": True})}, (False, False, False)),
        ({"exclusive": True, "arguments": Map({"no-local": False})}, (False, False, False)),
        ({"exclusive": True}, (False, False, False)),
    ],
)
def test_whose_messages_a_no_local_queue_does_not_take(options: dict[str, Any], is_locals: tuple[bool, ...]) -> None:
    home = Home(**options)
    assert tuple(is_local(home.queue, each) for each in (home.owner, home.sibling, home.stranger)) == is_locals
