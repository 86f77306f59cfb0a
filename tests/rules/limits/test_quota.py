"""Limits on how many there may be at a time, as tables of commands and their outcomes."""

from __future__ import annotations

import pytest

from amqproxy.rules.limits.limit import Limit
from tests.rules.limits.limit_config import limit
from tests.rules.timeline import Timeline

COUNTED = [
    (
        "connections of all",
        limit(of="connections", most=1),
        """
        0    a0 connection.open    passes
        0    b0 connection.open    closes connection 530
        0    b over
        1    a over
        1    b0 connection.open    passes
        """,
    ),
    (
        "connections of each user",
        limit(of="connections", most=1, per="user"),
        """
        0    a0 connection.open    passes
        0    b0 connection.open    passes
        """,
    ),
    (
        "channels",
        limit(of="channels", most=2),
        """
        0    a1 channel.open    passes
        0    a2 channel.open    passes
        0    a3 channel.open    closes channel 506
        0    a3 closed
        0    a1 closed
        0    a3 channel.open    passes
        0    b1 channel.open    passes
        """,
    ),
    (
        "consumers, cancelled by either or gone with their channel",
        limit(of="consumers", most=1, per="vhost"),
        """
        0    a1 basic.consume consumer_tag=x                  passes
        0    b1 basic.consume consumer_tag=y                  closes channel 506
        0    b1 closed
        0    a1 < basic.consume-ok consumer_tag=x             passes
        0    a1 basic.cancel consumer_tag=x                   passes
        0    b1 basic.consume consumer_tag=y                  closes channel 506
        0    b1 closed
        0    a1 < basic.cancel-ok consumer_tag=x              passes
        0    b1 basic.consume                                 passes
        0    b1 < basic.consume-ok consumer_tag=amq.ctag-1    passes
        0    a1 basic.consume consumer_tag=x                  closes channel 506
        0    a1 closed
        0    b1 < basic.cancel consumer_tag=amq.ctag-1        passes
        0    a1 basic.consume consumer_tag=x no_wait=true     passes
        0    b1 basic.consume consumer_tag=x                  closes channel 506
        0    b1 closed
        0    a1 basic.cancel consumer_tag=x no_wait=true      passes
        0    b1 basic.consume consumer_tag=x no_wait=true     passes
        0    b1 closed
        0    c1 basic.consume                                 passes
        0    c over
        0    a1 basic.consume consumer_tag=x                  passes
        """,
    ),
    (
        "consumers of some queues",
        limit(of="consumers", most=1, per="queue", match={"queue": "orders.*"}),
        """
        0    a1 basic.consume queue=orders.x consumer_tag=x    passes
        0    a1 basic.consume queue=orders.y consumer_tag=y    passes
        0    b1 basic.consume queue=orders.y consumer_tag=x    closes channel 506
        0    b1 closed
        0    b1 basic.consume queue=others consumer_tag=x      passes
        0    b1 basic.consume queue=others consumer_tag=y      passes
        """,
    ),
    (
        "queues, each name once, until they are deleted or their sessions over",
        limit(of="queues", most=2, per="vhost"),
        """
        0    a1 queue.declare queue=x                     passes
        0    a1 < queue.declare-ok queue=x                passes
        0    a1 queue.declare queue=x                     passes
        0    a1 < queue.declare-ok queue=x                passes
        0    b1 queue.declare queue=x                     passes
        0    b1 < queue.declare-ok queue=x                passes
        0    a1 queue.declare                             passes
        0    a1 < queue.declare-ok queue=amq.gen-1        passes
        0    a1 queue.declare queue=y                     closes channel 506
        0    a1 closed
        0    a1 queue.declare queue=y passive=true        passes
        0    a1 < queue.declare-ok queue=y                passes
        0    a1 queue.delete queue=amq.gen-1              passes
        0    b1 queue.declare queue=y                     closes channel 506
        0    b1 closed
        0    a1 < queue.delete-ok                         passes
        0    b1 queue.declare queue=y                     passes
        0    b1 closed
        0    b1 queue.declare queue=z                     passes
        0    b1 < queue.declare-ok queue=z                passes
        0    a over
        0    b1 queue.declare queue=y                     closes channel 506
        0    b1 closed
        0    a1 queue.delete queue=x no_wait=true         passes
        0    a1 queue.declare queue=y no_wait=true        passes
        0    c1 queue.declare queue=w                     closes channel 506
        0    c1 closed
        0    b over
        0    a1 queue.declare queue=w                     passes
        """,
    ),
    (
        "a delete that may fail gives nothing back before it is answered",
        limit(of="queues", most=1),
        """
        0    a1 queue.declare queue=x no_wait=true                     passes
        0    a1 queue.delete queue=x if_empty=true no_wait=true        passes
        0    a1 queue.declare queue=y                                  closes channel 506
        0    a1 closed
        0    a1 queue.delete queue=x if_unused=true                    passes
        0    a1 queue.declare queue=y                                  closes channel 506
        0    a1 closed
        0    a1 queue.delete queue=x if_unused=true                    passes
        0    a1 < queue.delete-ok                                      passes
        0    a1 queue.declare queue=y                                  passes
        """,
    ),
    (
        "none at all",
        limit(of="channels", most=0),
        """
        0    a1 channel.open    closes channel 506
        """,
    ),
]


@pytest.mark.parametrize(("rule", "table"), [case[1:] for case in COUNTED], ids=[case[0] for case in COUNTED])
def test_what_there_may_be_at_a_time(rule: Limit, table: str) -> None:
    timeline = Timeline(rule)
    timeline.play(table)
    for evaluator in timeline.evaluators.values():
        evaluator.session_over()
    assert not len(timeline.ruleset.cases[0].shared)
