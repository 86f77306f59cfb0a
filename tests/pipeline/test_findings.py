"""Findings from the tables are those of `decode --findings`, on every capture."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method, every_frame
from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    ConnectionClose,
    ConnectionCloseOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
)
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.pipeline.findings import ACROSS_CONNECTIONS, findings
from amqproxy.pipeline.schema import FINDINGS
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.taps.findings.connection_churn import ConnectionPerMessage
from amqproxy.taps.findings.consumer_cancelled import ConsumerCancelled
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.findings.process_inspector import PROCESS_DETECTORS
from amqproxy.taps.findings.unconsumed_queue import UnconsumedQueue
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.trace.snapshot import (
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    DeclarationSnapshot,
    HandshakeSnapshot,
)
from tests.capture import golden, shared_captures
from tests.export.dialogue import Dialogue
from tests.pipeline.captures_by_hand import capture_of, later
from tests.pipeline.event_frames import events_of
from tests.recording.joined import written
from tests.taps.sessions import Session

pytestmark = [pytest.mark.once, pytest.mark.both_engines(usual=False)]


def one_message(stream: int) -> Dialogue:
    made = Dialogue("web", stream=stream).publish("orders", "new", b"x")
    made.client(ConnectionClose(reply_code=200), channel=0).server(ConnectionCloseOk(), channel=0)
    return made


def unread() -> list[Dialogue]:
    """Two queues that nothing reads, one of them bound; one that is read; and what else passes while time goes by."""
    producer = Dialogue("shop", stream=20).declare("unread").declare("read").declare("bound")
    producer.client(QueueBind(queue="bound", exchange="orders", routing_key="copy")).server(QueueBindOk())
    for key in ("unread", "unread", "read"):
        producer.publish("", key, b"x")
    later(producer, 1).publish("orders", "copy", b"y")
    later(producer, 30).publish("", "unread", b"z")
    for _ in range(10):
        later(producer, 7).publish("orders", "nowhere", b"w").publish("orders", "copy", b"v")
    consumer = Dialogue("mail", stream=21).client(BasicConsume(queue="read", consumer_tag="c"))
    return [producer, consumer.server(BasicConsumeOk(consumer_tag="c"))]


def cancelled() -> list[Dialogue]:
    """A consumer whose queue another client deletes, and one that the broker ends for no cause that is seen."""
    consumer = Dialogue("mail", stream=40)
    for tag in ("a", "b"):
        consumer.client(BasicConsume(queue=tag, consumer_tag=tag)).server(BasicConsumeOk(consumer_tag=tag))
    other = Dialogue("shop", stream=41).client(QueueDelete(queue="a")).server(QueueDeleteOk())
    for tag in ("a", "b"):
        consumer.server(BasicCancel(consumer_tag=tag, no_wait=True))
    consumer.client(ConnectionClose(reply_code=200), channel=0).server(ConnectionCloseOk(), channel=0)
    return [consumer, other]


def kept() -> bytes:
    """A recording of a client that has declared two queues, and consumes one of them, before it begins."""
    now = itertools.count(10**18, 10**9)
    queue = EntryQueue(1_000_000)
    tap = RecorderTap(queue, lambda session, size: None, lambda frames: None, clock=now.__next__)
    session = Session()
    declared = [encode_method(0, QueueDeclare(queue=name))[7:-1] for name in ("read", "unread")]
    snapshot = ConnectionSnapshot(
        ts_ns=next(now),
        protocol="0-9-1",
        handshake=HandshakeSnapshot(user="shop", virtual_host="/", frame_max=131_072),
        channels=(ChannelSnapshot(number=1, mode="normal", consumers=(ConsumerSnapshot(tag="c", queue="read"),)),),
        declarations=tuple(DeclarationSnapshot(method=each, ts_ns=0) for each in declared),
    )
    tap.saw_snapshot(session, snapshot)
    for _ in range(11):
        for key in ("read", "unread", *["nowhere"] * 5):
            publish = Command(1, BasicPublish(exchange="", routing_key=key), body=b"x").encode(0)
            tap.saw_frames(session, CLIENT, every_frame(publish, 0))
    return written(queue)


MADE = {
    "cancelled.pcapng": cancelled(),
    "churn.pcapng": [one_message(each) for each in range(12)],
    "unread.pcapng": unread(),
    "joined.pcapng": [*unread(), Dialogue(stream=30, is_joined=True).publish("", "x", b"?")],
}


def captures(folder: Path) -> list[Path]:
    for name, dialogues in MADE.items():
        (folder / name).write_bytes(capture_of(*dialogues))
    (folder / "kept.pcapng").write_bytes(kept())
    return [*golden.captures(), *shared_captures.files(), *sorted(folder.iterdir())]


def shown(finding: Finding) -> tuple[Any, ...]:
    return (
        *(finding.ts_ns, finding.connection, finding.channel, finding.kind, str(finding.severity), finding.text),
        *(finding.count, finding.why, finding.remedy),
    )


def test_findings_of_all_captures_are_those_of_decode(spark: SparkSession, tmp_path: Path) -> None:
    paths = captures(tmp_path)
    found = findings(spark.createDataFrame(events_of(paths)).coalesce(2), across="chain")
    rows = found.toArrow()
    assert rows.schema.names == FINDINGS.names
    assert rows.schema.types == to_arrow_schema(FINDINGS, timezone="UTC").types
    rows = rows.to_pylist()
    names = ("ts_ns", "connection", "channel", "kind", "severity", "text", "count", "why", "remedy")
    settings = ObserverSettings(messages=False, findings=True)
    kinds: Counter[str] = Counter()
    for path in paths:
        ours = Counter(tuple(row[name] for name in names) for row in rows if row["chain"] == str(path))
        found_in = observed(read_decoded(path), settings)
        theirs = Counter(shown(each) for each in found_in if isinstance(each, Finding))
        assert ours == theirs, path.name
        kinds.update(row["kind"] for row in rows if row["chain"] == str(path))
    assert {kind: kinds[kind] for kind in ACROSS_CONNECTIONS} == {
        "connection-per-message": 1,
        "consumer-cancelled": 1,
        "unconsumed-queue": 3,
    }
    assert [row["text"].split()[1] for row in rows if row["chain"].endswith("kept.pcapng")] == ["unread"]
    churn = next(row for row in rows if row["kind"] == "connection-per-message")
    assert (churn["user"], churn["client"], churn["virtual_host"]) == ("web", "pika", "/")
    assert churn["evidence"].count("connection_id") == 10


def test_who_reads_a_queue_may_be_seen_elsewhere_and_later_rows_are_found_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A queue that is read through another host's proxy is read, if both have one broker."""
    for name, dialogues in (("here", unread()[:1]), ("there", unread()[1:])):
        (tmp_path / name).write_bytes(capture_of(*dialogues))
    made = events_of([tmp_path / "here", tmp_path / "there"])
    events = spark.createDataFrame(made)
    of_each = [row for row in findings(events, across="chain").collect() if row.kind == "unconsumed-queue"]
    column = made.schema.get_field_index("server_properties")
    cluster = [each and '{"cluster_name":"rabbit@b"}' for each in made.column(column).to_pylist()]
    named = spark.createDataFrame(made.set_column(column, made.schema.field(column), pa.array(cluster)))
    of_all = [row for row in findings(named).collect() if row.kind == "unconsumed-queue"]
    assert {row.text.split()[1] for row in of_each} == {"unread", "read", "bound"}
    assert {row.text.split()[1] for row in of_all} == {"unread", "bound"}
    last = max(row.ts_ns for row in of_all)
    later_rows = findings(named, since_ns=last).collect()
    assert {row.ts_ns for row in later_rows if row.kind == "unconsumed-queue"} == {last}


def test_these_are_all_that_look_across_connections() -> None:
    assert (ConnectionPerMessage, ConsumerCancelled, UnconsumedQueue) == PROCESS_DETECTORS
