"""A request by an administrator, for handlers."""

from __future__ import annotations

from pathlib import Path

from amqproxy.management.access import User
from amqproxy.management.broker_source import BrokerFacts, BrokerSource
from amqproxy.management.call import Call
from amqproxy.management.login import LoginAttempts
from amqproxy.management.settings import Settings
from amqproxy.management.statistics.history import History


def call(broker: BrokerSource, **values: str) -> Call:
    user = User("guest", ("administrator",), frozenset({"/"}))
    facts = BrokerFacts({"version": "4.3.0", "node": "rabbit@node", "cluster_name": None, "frame_max": 1000})
    return Call(
        values,
        {},
        b"",
        "",
        user,
        broker,
        facts,
        Settings(control=Path("unused"), host="127.0.0.1", port=0),
        History(),
        LoginAttempts(),
    )
