"""The lists from the tables are those that `rules suggest` makes from the same captures."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from amqproxy.amqp091.methods import BasicConsume, BasicConsumeOk, BasicGet, BasicGetOk, QueueBind, QueueBindOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.capture.decode import read_decoded
from amqproxy.export.access_suggestion import as_toml, refused_of, suggested
from amqproxy.pipeline.access import suggested_access
from tests.amqp010 import recorded
from tests.capture import golden, shared_captures
from tests.export.dialogue import Dialogue
from tests.pipeline.captures_by_hand import capture_of
from tests.pipeline.event_frames import events_of

pytestmark = [pytest.mark.once, pytest.mark.both_engines(usual=False)]


JOINED = "consume-large.joined-midway.pcapng"
"""Here the trace does not know what was asked for, only that it was answered; a frame by itself shows it."""

TURNED_AWAY = "jms-010-errors"
"""In the name of a capture whose client asks for a virtual host that is not there: the trace does not show that."""


def made() -> list[Dialogue]:
    """Queues that the broker or a program named, copies of messages, and a queue that is meant without its name."""
    shop = Dialogue("shop", stream=1).declare("", named="amq.gen-JzTY20BRgKO-HjmUJj0wLg")
    shop.client(QueueBind(exchange="orders")).server(QueueBindOk())
    shop.client(BasicConsume(consumer_tag="c")).server(BasicConsumeOk(consumer_tag="c"))
    for number in range(4):
        shop.publish("orders", f"shard-{number}", b"x").declare(f"reply.8f14e45f-ceea-467f-a0e6-c4a5ad4e2f3{number}")
    copied = Properties(headers=Table({"CC": ["audit.1", "audit.2"], "BCC": ["hidden"]}))
    shop.publish("orders", "new", b"x", copied).publish("", "mail", b"y")
    mail = Dialogue("mail", "other", stream=2).client(BasicGet(queue="mail"))
    mail.content(BasicGetOk(delivery_tag=1, routing_key="mail"), b"y")
    return [shop, mail, Dialogue(stream=3, is_joined=True, address="10.0.0.9").publish("orders", "late", b"z")]


def test_lists_from_tables_are_those_from_captures(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "made.pcapng").write_bytes(capture_of(*made()))
    captures = [*golden.captures(), *shared_captures.files(), *recorded.captures()]
    read = (each for each in captures if each.name != JOINED and TURNED_AWAY not in each.name)
    paths = [*read, tmp_path / "made.pcapng"]
    found, commands = suggested_access(spark.createDataFrame(events_of(paths)).coalesce(1))
    expected = suggested(lambda: chain.from_iterable(read_decoded(path) for path in paths))
    assert {line.text for line in found.lines} == {line.text for line in expected.lines}
    assert refused_of(found, commands) == 0


def test_the_file_is_the_same_with_its_evidence(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "made.pcapng"
    path.write_bytes(capture_of(*made()))
    found, commands = suggested_access(spark.createDataFrame(events_of([path])).coalesce(1))
    assert as_toml(found, ["made"]) == as_toml(suggested(lambda: read_decoded(path)), ["made"])
    assert refused_of(found, commands) == 0
    without = found.__class__(found.lines[1:], found.commands, found.connections)
    assert refused_of(without, commands) > 0
