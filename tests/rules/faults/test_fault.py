"""Faults, each as a table of timed commands and what goes wrong."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.rules.engine.validation import check
from amqproxy.rules.faults.fault import Fault, FaultState
from tests.rules.timeline import Timeline


def fault(kind: str, *, match: dict[str, Any] | None = None, rule: dict[str, Any] | None = None, **keys: Any) -> Fault:
    rule = {"action": "fault", "name": "broken", "match": match or {}, **(rule or {}), "fault": {"kind": kind, **keys}}
    made = msgspec.convert(rule, Fault)
    check([made])
    return made


PUBLISHED = {"method": "basic.publish"}

TABLES = [
    (
        "the next two publishes of each connection are nacked",
        fault("nack", rule={"count": 2}),
        """
        0    a1 basic.publish    nack
        0    a1 basic.publish    nack
        0    a1 basic.publish    passes
        0    b1 basic.publish    nack
        """,
    ),
    (
        "the next two of all are returned",
        fault("return", rule={"count": 2, "per": "all"}),
        """
        0    a1 basic.publish    return
        0    b1 basic.publish    return
        0    c1 basic.publish    passes
        """,
    ),
    (
        "some are dropped by chance",
        fault("drop", match=PUBLISHED, rule={"probability": 0.5}, told="ack"),
        """
        0    a1 basic.publish    passes
        0    a1 basic.publish    ack
        0    a1 basic.publish    passes
        """,
    ),
    (
        "the client's acks are lost for a while",
        fault("drop", match={"method": "basic.ack", "sender": "client"}, rule={"duration": 5}),
        """
        7     a1 basic.ack      dropped
        8     a1 < basic.ack    passes
        11    a1 basic.ack      dropped
        12    a1 basic.ack      passes
        """,
    ),
    (
        "acks come late, more or less",
        fault("delay", match={"method": "basic.ack"}, seconds=2, jitter=1),
        """
        0    a1 basic.ack    waits 2.5
        0    a1 basic.ack    waits 1.5
        """,
    ),
    (
        "a delivery comes twice",
        fault("duplicate", match={"method": "basic.deliver"}, rule={"nth": 2}),
        """
        0    a1 < basic.deliver delivery_tag=1           passes
        0    a1 < basic.deliver delivery_tag=2 size=3    client: basic.deliver delivery_tag=2 redelivered=true size=3
        0    a1 < basic.deliver delivery_tag=3           passes
        """,
    ),
    (
        "a publish comes twice",
        fault("duplicate", rule={"count": 1}),
        """
        0    a1 basic.publish exchange=x    server: basic.publish exchange=x
        """,
    ),
    (
        "deliveries out of order",
        fault("reorder", behind=2, rule={"count": 1}),
        """
        0    a1 < basic.deliver    behind 2
        0    a1 < basic.deliver    passes
        """,
    ),
    (
        "a heartbeat is lost",
        fault("drop", match={"method": "heartbeat"}, rule={"count": 1}),
        """
        0    a0 heartbeat      dropped
        5    a0 heartbeat      passes
        5    a1 basic.ack      passes
        """,
    ),
    (
        "the channel is closed at the third publish, and at no other",
        fault("close", match=PUBLISHED, code=504, rule={"nth": 3}),
        """
        0    a1 basic.publish    passes
        0    a2 basic.publish    passes
        0    a1 basic.publish    closes channel 504
        0    a1 basic.publish    passes
        """,
    ),
    (
        "the connection is closed when it is opened, and with a code that AMQP does not know",
        fault("close", match={"method": "connection.open"}, code=999, scope="connection"),
        """
        0    a0 connection.open    closes connection 999
        """,
    ),
    (
        "a declare is answered with 406",
        fault("close", match={"method": "*.declare"}, code=406),
        """
        0    a1 queue.declare       closes channel 406
        0    a1 exchange.declare    closes channel 406
        0    a1 queue.bind          passes
        """,
    ),
    (
        "blocked for a while, and then again",
        fault("block", match=PUBLISHED, seconds=5),
        """
        0    a1 basic.publish    client ahead: connection.blocked; client after 5: connection.unblocked
        1    a1 basic.publish    passes
        5    a1 basic.publish    client ahead: connection.blocked; client after 5: connection.unblocked
        """,
    ),
    (
        "a consumer is cancelled, and what comes for it still goes back",
        fault("cancel", match={"consumer_tag": "x"}, rule={"nth": 2}),
        """
        0    a1 < basic.deliver consumer_tag=x       passes
        0    a1 < basic.deliver consumer_tag=x       server: basic.cancel consumer_tag=x no_wait=true
             ; client: basic.cancel consumer_tag=x no_wait=true
        0    a1 < basic.deliver consumer_tag=x       requeue
        0    a1 < basic.deliver consumer_tag=y       passes
        0    a2 < basic.deliver consumer_tag=x       passes
        0    a1 < basic.consume-ok consumer_tag=x    passes
        0    a1 < basic.deliver consumer_tag=x       passes
        """,
    ),
    (
        "what was cancelled is forgotten with its channel",
        fault("cancel", rule={"count": 1}),
        """
        0    a1 < basic.deliver consumer_tag=x       server: basic.cancel consumer_tag=x no_wait=true
             ; client: basic.cancel consumer_tag=x no_wait=true
        0    a1 closed
        0    a1 < basic.deliver consumer_tag=x       passes
        """,
    ),
    (
        "a frame is corrupted, here or anywhere",
        fault("corrupt", match={"method": "basic.ack"}, place=7, mask=1, rule={"count": 1}),
        """
        0    a1 basic.ack    damaged at 7 by 1
        """,
    ),
    (
        "anywhere",
        fault("corrupt", match={"method": ["basic.ack", "heartbeat"]}),
        """
        0    a1 basic.ack      damaged at 15 by 255
        0    a0 heartbeat      damaged at 2 by 255
        """,
    ),
    (
        "past the end is at the end",
        fault("corrupt", match={"method": "basic.ack"}, place=700),
        """
        0    a1 basic.ack    damaged at 20 by 255
        """,
    ),
    (
        "latency from the beginning, both ways",
        fault("latency", delay=0.2, jitter=0.1, rule={"duration": 30}),
        """
        0    a0 start           latency delay=0.2 jitter=0.1 to client for 30
             ; latency delay=0.2 jitter=0.1 to server for 30
        0    a0 start           passes
        0    a1 basic.publish   passes
        """,
    ),
    (
        "bandwidth for the first connection of all",
        fault("bandwidth", rate="1KiB", to="server", rule={"count": 1, "per": "all"}),
        """
        0    a0 start    bandwidth rate=1024 to server
        0    b0 start    passes
        """,
    ),
    (
        "slices from the first publish on, once",
        fault("slicing", size=3, variation=1, pause=0.5, to="client", match=PUBLISHED),
        """
        0    a0 start            passes
        0    a1 basic.ack        passes
        0    a1 basic.publish    slicing size=3 variation=1 pause=0.5 to client
        0    a1 basic.publish    passes
        0    b1 basic.publish    slicing size=3 variation=1 pause=0.5 to client
        """,
    ),
    (
        "silence at the second publish",
        fault("timeout", close_after=4, to="client", match=PUBLISHED, rule={"nth": 2, "duration": 9}),
        """
        0    a1 basic.publish    passes
        0    a1 basic.publish    silence close_after=4 to client for 9
        """,
    ),
    (
        "resets, by chance",
        fault("reset", after=1, to="client", rule={"probability": 0.5}),
        """
        0    a0 start    passes
        0    b0 start    reset after=1 to client
        """,
    ),
    ("half-close", fault("half_close", after=1, to="server"), "0   a0 start   halfclose after=1 to server"),
    ("slow close", fault("slow_close", delay=1, to="server"), "0   a0 start   slowclose delay=1 to server"),
    ("limited data", fault("limit_data", octets="1kB", to="server"), "0   a0 start   cutoff size=1000 to server"),
]


@pytest.mark.parametrize(("rule", "table"), [case[1:] for case in TABLES], ids=[case[0] for case in TABLES])
def test_what_goes_wrong(rule: Fault, table: str) -> None:
    Timeline(rule, chances=(0.75, 0.25)).play(table)


def test_a_client_that_does_not_know_such_words_is_spared_them() -> None:
    rule = fault("block", match=PUBLISHED, seconds=5)
    Timeline(rule, properties={}).play("0   a1 basic.publish   passes")
    rule = fault("cancel")
    Timeline(rule, properties={}).play(
        "0   a1 < basic.deliver consumer_tag=x   server: basic.cancel consumer_tag=x no_wait=true"
    )


def test_in_shadow_nothing_happens() -> None:
    timeline = Timeline(
        fault("nack", rule={"mode": "shadow"}), fault("reset", rule={"mode": "shadow", "name": "other"})
    )
    timeline.play("""
        0    a0 start            passes
        0    a1 basic.publish    passes
    """)
    assert {name: counts.shadow_hits for name, counts in timeline.ruleset.counts().items()} == {"broken": 1, "other": 1}


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"kind": "nack", "match": {"method": "basic.ack"}}, "applies only to basic.publish"),
        ({"kind": "trouble"}, "trouble"),
        ({"kind": "bandwidth", "rate": 0}, "at least one byte"),
        ({"kind": "limit_data", "octets": "much"}, "is not a size"),
        ({"kind": "latency"}, "delay"),
        ({"kind": "latency", "delay": -1}, "delay"),
        ({"kind": "slow_close", "delay": 1e9}, "delay"),
        ({"kind": "nack", "rule": {"probability": 0}}, "probability"),
        ({"kind": "nack", "rule": {"nth": 0}}, "nth"),
        ({"kind": "nack", "excess": 1}, "excess"),
        ({"kind": "drop", "match": {"method": "channel.close-ok"}}, "applies only to"),
        ({"kind": "corrupt", "mask": 0}, "mask"),
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, Any], why: str) -> None:
    with pytest.raises((msgspec.ValidationError, ValueError), match=why):
        fault(keys.pop("kind"), **keys)


@pytest.mark.parametrize(
    ("keys", "counts"),
    [
        ({"fault": {"kind": "reorder"}}, True),
        ({"fault": {"kind": "drop"}, "match": {"method": "basic.deliver"}}, True),
        ({"fault": {"kind": "drop"}, "match": {"method": "basic.get-ok"}}, True),
        ({"fault": {"kind": "drop", "told": "ack"}, "match": {"method": "basic.deliver"}}, False),
        ({"fault": {"kind": "drop"}, "match": {"method": "basic.publish"}}, False),
        ({"fault": {"kind": "duplicate"}}, False),
    ],
)
def test_deliveries_are_counted_from_the_first_where_one_may_be_passed_over(keys: dict[str, Any], counts: bool) -> None:
    assert msgspec.convert({"name": "f"} | keys, Fault).reads_unacked is counts


def test_only_so_many_cancelled_consumers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqproxy.rules.faults.fault.MAX_CANCELLED", 3)
    state = FaultState()
    for number in range(10):
        state.cancel(number % 2, f"c{number}")
    assert list(state.cancelled) == [(1, "c7"), (0, "c8"), (1, "c9")]
    state.channel_closed(1)
    assert list(state.cancelled) == [(0, "c8")]
