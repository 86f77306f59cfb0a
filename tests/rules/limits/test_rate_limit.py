"""Limits on rates, as tables of timed commands and their outcomes."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.rules.context import ChannelInfo
from amqproxy.rules.limits.limit import Limit
from tests.rules.limits.limit_config import limit
from tests.rules.scene import decided, from_client, memory
from tests.rules.timeline import Timeline

PACED = [
    (
        "what comes too fast waits, so that the rate holds",
        limit(of="messages", rate=10, burst=2),
        """
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    waits 0.1
        0      a1 basic.publish    waits 0.2
        0.2    a2 basic.publish    waits 0.1
        0.2    b1 basic.publish    passes
        0.2    a1 basic.ack        passes
        1      a1 basic.publish    passes
        """,
    ),
    (
        "a user's connections share what the user may",
        limit(of="messages", rate=1, per="user", max_delay=1.5),
        """
        0      a1 basic.publish    passes
        0      a2 basic.publish    waits 1
        0      a3 basic.publish    closes channel 506
        1      a4 basic.publish    waits 1
        1      b1 basic.publish    passes
        """,
    ),
    (
        "each exchange for itself",
        limit(of="messages", rate=1, per=["user", "exchange"], match={"exchange": "!free"}),
        """
        0      a1 basic.publish exchange=x      passes
        0      a1 basic.publish exchange=y      passes
        0      a1 basic.publish exchange=x      waits 1
        0      a1 basic.publish exchange=free   passes
        0      a1 basic.publish exchange=free   passes
        """,
    ),
    (
        "bytes, of which a message may have more than a burst",
        limit(of="bytes", rate="1kB", burst=2000),
        """
        0      a1 basic.publish size=5000    passes
        0      a1 basic.publish              waits 3
        0      a1 basic.publish size=1000    waits 4
        10     a1 basic.publish size=1000    passes
        """,
    ),
    (
        "deliveries",
        limit(of="deliveries", rate=1),
        """
        0      a1 < basic.deliver    passes
        0      a1 < basic.get-ok     waits 1
        0      a1 basic.publish      passes
        """,
    ),
    (
        "churn of connections",
        limit(of="commands", rate=1, match={"method": "connection.open"}, per="all"),
        """
        0      a0 connection.open    passes
        0      b0 connection.open    waits 1
        0      b0 connection.close   passes
        0      b1 channel.open       passes
        """,
    ),
    (
        "churn of channels, refused",
        limit(of="commands", rate=1, match={"method": "channel.open"}, act="refuse", code=504),
        """
        0      a1 channel.open    passes
        0.5    a2 channel.open    closes channel 504
        1      a3 channel.open    passes
        """,
    ),
    (
        "commands of the broker are not counted as commands",
        limit(of="commands", rate=1),
        """
        0      a1 basic.ack        passes
        0      a1 < basic.ack      passes
        0      a1 channel.close    passes
        0      a1 basic.ack        waits 1
        """,
    ),
    (
        "a client with the capability gets connection.blocked, and connection.unblocked",
        limit(of="messages", rate=10, burst=10, act="block"),
        """
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    passes
        0      a1 basic.publish    waits 0.1; client ahead: connection.blocked; client after 0.6: connection.unblocked
        0      a1 basic.publish    waits 0.2
        0.6    a1 basic.publish    passes
        """,
    ),
]


@pytest.mark.parametrize(("rule", "table"), [case[1:] for case in PACED], ids=[case[0] for case in PACED])
def test_what_passes_a_second(rule: Limit, table: str) -> None:
    Timeline(rule).play(table)


def test_who_does_not_know_blocked_just_waits() -> None:
    timeline = Timeline(limit(of="messages", rate=1, act="block"), properties={})
    timeline.play("""
        0      a1 basic.publish    passes
        0      a1 basic.publish    waits 1
    """)


def test_a_publish_that_is_refused_is_nacked_where_the_channel_confirms() -> None:
    timeline = Timeline(limit(of="messages", rate=1, act="refuse"), facts=ChannelInfo(is_confirming=True))
    timeline.play("""
        0      a1 basic.publish    passes
        0      a1 basic.publish    nack
        0.9    a1 basic.publish    nack
        1      a1 basic.publish    passes
    """)


def test_messages_that_are_counted_alike_on_every_channel_may_pass_unseen() -> None:
    publish = from_client(BasicPublish(exchange="x"))
    for keys, is_told in (
        ({"of": "messages"}, True),
        ({"of": "messages", "per": ["user", "exchange"]}, True),
        ({"of": "commands"}, True),
        ({"of": "messages", "per": "channel"}, False),
        ({"of": "messages", "per": ["user", "channel"]}, False),
        ({"of": "bytes"}, False),
    ):
        rule = limit(**keys, rate=2)
        remembered = memory(rule)
        decided(rule, publish, remembered)
        allowance = rule.allowance(publish, remembered)
        assert (allowance.left if allowance else None) == (1 if is_told else None)
