"""Limits on how many there may be at a time, as tables of commands and their outcomes."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import Method, QueueDeclare, QueueDeclareOk
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.rules.context import ChannelInfo, CommandContext
from amqproxy.rules.limits.limit import Limit
from tests.rules.limits.limit_config import limit
from tests.rules.timeline import Timeline, outcome

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
        0    a1 queue.declare queue=y no_wait=true        closes channel 506
        0    a1 queue.declare queue=z passive=true        passes
        0    a1 < queue.declare-ok queue=z                passes
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
        "a delete without an answer gives back what a later answer proves, and nothing if its channel is closed",
        limit(of="queues", most=2, per="user"),
        """
        0    a1 queue.declare queue=x no_wait=true          passes
        0    a1 queue.declare queue=w passive=true          passes
        0    a1 queue.delete queue=x no_wait=true           passes
        0    a1 < queue.declare-ok queue=w                  passes
        0    a1 queue.declare queue=y                       passes
        0    a2 queue.declare queue=z                       closes channel 506
        0    a2 closed
        0    a1 < queue.declare-ok queue=y                  passes
        0    a2 queue.declare queue=z                       passes
        0    a2 < queue.declare-ok queue=z                  passes
        0    a1 queue.delete queue=y no_wait=true           passes
        0    a1 queue.delete queue=z                        passes
        0    a1 closed
        0    a2 queue.declare queue=w                       closes channel 506
        """,
    ),
    (
        "a queue that is declared again while its delete is under way counts",
        limit(of="queues", most=1, per="all"),
        """
        0    a1 queue.declare queue=x                       passes
        0    a1 < queue.declare-ok queue=x                  passes
        0    a1 queue.delete queue=x                        passes
        0    b1 queue.declare queue=x no_wait=true          passes
        0    a1 < queue.delete-ok                           passes
        0    a1 queue.declare queue=y                       closes channel 506
        0    a1 closed
        0    a1 queue.delete queue=x                        passes
        0    a1 queue.declare queue=x no_wait=true          passes
        0    a1 < queue.delete-ok                           passes
        0    a1 queue.declare queue=y                       closes channel 506
        """,
    ),
    (
        "a queue that another session deletes counts again when it is declared again without an answer",
        limit(of="queues", most=1, per="all"),
        """
        0    a1 queue.declare queue=x no_wait=true          passes
        0    b1 queue.delete queue=x                        passes
        0    b1 < queue.delete-ok                           passes
        0    a1 queue.declare queue=x no_wait=true          passes
        0    a1 queue.declare queue=y no_wait=true          closes channel 506
        """,
    ),
    (
        "queues that the broker names, whether it tells the name or not",
        limit(of="queues", most=2),
        """
        0    a1 queue.declare no_wait=true                  passes
        0    a1 closed
        0    a1 queue.declare                               passes
        0    a1 < queue.declare-ok queue=amq.gen-1          passes
        0    a1 queue.declare no_wait=true                  closes channel 506
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


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_name_of_line_breaks_is_none(is_answered: bool) -> None:
    timeline = Timeline(limit(of="queues", most=2))
    evaluator = timeline.evaluator("a")

    def outcome_of(sender: Peer, method: Method) -> str:
        command = Command.received([Frame(encode_method(1, method))])
        channel = ChannelInfo(number=1)
        context = CommandContext(sender=sender, command=command, client=evaluator.client, channel=channel)
        return outcome(command, evaluator.evaluate(context))

    for number in range(2):
        assert outcome_of(CLIENT, QueueDeclare(queue="\r\n", no_wait=not is_answered)) == "passes"
        if is_answered:
            assert outcome_of(SERVER, QueueDeclareOk(queue=f"amq.gen-{number}")) == "passes"
    assert outcome_of(CLIENT, QueueDeclare(queue="\r\n")) == "closes channel 506"
    evaluator.channel_closed(1)
    assert outcome_of(CLIENT, QueueDeclare(queue="x")) == "closes channel 506"
