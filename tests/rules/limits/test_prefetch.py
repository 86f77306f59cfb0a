"""Limits on prefetch and on unacknowledged messages, as tables of commands and their outcomes."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicConsume, BasicDeliver
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import ChannelInfo
from amqproxy.rules.limits.limit import Limit
from amqproxy.rules.limits.prefetch import Unsettled
from tests.rules.commands import command, evaluated
from tests.rules.limits.limit_config import limit
from tests.rules.timeline import Timeline

PREFETCHED = [
    (
        "clamped, or given to a channel that has none",
        limit(of="prefetch", most=10),
        ChannelInfo(),
        """
        0    a1 basic.qos prefetch_count=5     passes
        0    a1 basic.consume                  passes
        0    a1 basic.qos prefetch_count=50    becomes basic.qos prefetch_count=10
        0    a1 basic.qos                      becomes basic.qos prefetch_count=10
        0    a2 basic.consume no_ack=true      passes
        0    a2 basic.consume                  server ahead: basic.qos prefetch_count=10
        0    a2 basic.consume                  passes
        0    a2 closed
        0    a2 basic.consume                  server ahead: basic.qos prefetch_count=10
        """,
    ),
    (
        "demanded",
        limit(of="prefetch", most=10, act="refuse"),
        ChannelInfo(),
        """
        0    a1 basic.consume                  closes channel 406
        0    a1 closed
        0    a1 basic.consume no_ack=true      passes
        0    a1 basic.qos prefetch_count=10    passes
        0    a1 basic.consume                  passes
        0    a2 basic.qos prefetch_count=11    closes channel 406
        """,
    ),
    (
        "a client's own prefetch stays, also where only consumers are matched",
        limit(of="prefetch", most=10, match={"queue": "orders"}),
        ChannelInfo(),
        """
        0    a1 basic.qos prefetch_count=5      passes
        0    a1 basic.consume queue=orders      passes
        0    a2 basic.consume queue=others      passes
        0    a2 basic.consume queue=orders      server ahead: basic.qos prefetch_count=10
        """,
    ),
    (
        "unacked, seen to by the broker",
        limit(of="unacked", most=10),
        ChannelInfo(unacked=10),
        """
        0    a1 basic.qos prefetch_count=50                 passes
        0    a1 basic.consume                               server ahead: basic.qos prefetch_count=10 global_=true
        0    a1 basic.consume                               passes
        0    a1 < basic.deliver                             passes
        0    a2 basic.qos prefetch_count=50 global_=true    becomes basic.qos prefetch_count=10 global_=true
        0    a2 basic.consume                               passes
        """,
    ),
    (
        "unacked, up to here",
        limit(of="unacked", most=10, act="refuse"),
        ChannelInfo(unacked=9),
        """
        0    a1 basic.consume consumer_tag=x        passes
        0    a1 < basic.deliver consumer_tag=x      passes
        0    a1 basic.get                           passes
        """,
    ),
    (
        "unacked, and no further",
        limit(of="unacked", most=10, act="refuse"),
        ChannelInfo(unacked=10),
        """
        0    a1 basic.consume consumer_tag=x                     passes
        0    a1 basic.consume consumer_tag=y no_ack=true         passes
        0    a1 < basic.consume-ok consumer_tag=y                passes
        0    a1 basic.consume no_ack=true                        passes
        0    a1 basic.consume                                    passes
        0    a1 < basic.consume-ok consumer_tag=amq.ctag-1       passes
        0    a1 < basic.consume-ok consumer_tag=amq.ctag-2       passes
        0    a1 < basic.deliver consumer_tag=y                   passes
        0    a1 < basic.deliver consumer_tag=amq.ctag-1          passes
        0    a1 < basic.cancel-ok consumer_tag=y                 passes
        0    a1 < basic.deliver consumer_tag=y                   closes channel 406
        0    a1 < basic.cancel consumer_tag=amq.ctag-1           passes
        0    a1 < basic.deliver consumer_tag=amq.ctag-1          closes channel 406
        0    a1 < basic.deliver consumer_tag=amq.ctag-2          closes channel 406
        0    a1 < basic.deliver consumer_tag=x                   closes channel 406
        0    a1 basic.get                                        closes channel 406
        0    a1 basic.get no_ack=true                            passes
        """,
    ),
]


def test_consumers_without_acknowledgements_are_forgotten_when_they_are_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = Unsettled()
    for number in range(100):
        memory.ask(1, BasicConsume(consumer_tag=f"c{number}", no_ack=True))
        memory.cancel(1, f"c{number}")
    assert memory.no_ack == {1: {}}
    monkeypatch.setattr("amqproxy.rules.limits.prefetch.MAX_NO_ACK", 3)
    for number in range(100):
        memory.ask(1, BasicConsume(consumer_tag=f"c{number}", no_ack=True))
        memory.ask(1, BasicConsume(no_ack=True))
    assert list(memory.no_ack[1]) == ["c97", "c98", "c99"]
    assert len(memory.unnamed[1]) == 3


@pytest.mark.parametrize(
    ("rule", "facts", "table"), [case[1:] for case in PREFETCHED], ids=[case[0] for case in PREFETCHED]
)
def test_what_is_delivered_before_it_is_acknowledged(rule: Limit, facts: ChannelInfo, table: str) -> None:
    timeline = Timeline(rule, facts=facts)
    timeline.play(table)
    assert rule.reads_unacked == (rule.of == "unacked" and rule.act == "refuse")
    for evaluator in timeline.evaluators.values():
        evaluator.session_over()


def test_the_client_receives_the_close() -> None:
    timeline = Timeline(limit(of="unacked", most=1, act="refuse"), facts=ChannelInfo(unacked=1))
    evaluator = timeline.evaluator("a")
    verdict = evaluated(evaluator, command(BasicDeliver()), SERVER, channel=ChannelInfo(number=1, unacked=1))
    assert verdict.close is not None
    assert verdict.close.receiver is CLIENT
    assert verdict.close.text == "PRECONDITION_FAILED - more than 1 unacknowledged messages"
