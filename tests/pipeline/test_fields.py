"""The table `fields`: bodies with known fields, hostile ones among them, in one run and in two, on either engine."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from amqproxy.amqp091.methods import BasicConsume, BasicConsumeOk, BasicDeliver
from amqproxy.pipeline import jobs
from amqproxy.pipeline.body_fields import MAX_BODY
from amqproxy.pipeline.ledger import Ledger
from amqproxy.pipeline.source import options_of
from amqproxy.pipeline.tables import Tables
from tests.capture.building import pcapng
from tests.export.dialogue import Dialogue
from tests.pipeline.captures_by_hand import capture_of, later, packets_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

HOUR = 3600
CARD = "4111111111111111"
NAME = "amqproxy-20261122T1{}0000.000000Z-4711003421.pcapng"
"""Names of a recorder, whose files continue each other."""

ORDERS = [json.dumps(each).encode() for each in ({"id": 1, "card": CARD}, {"id": "2"}, {"id": 3, "lines": [{}, {}]})]
HOSTILE = [
    b"\xff\xfe",
    b"[" * 30_000,
    json.dumps({f"f{each}": each for each in range(100_000)}).encode()[:MAX_BODY],
    b'{"n": 1e999}',
    b'{"\\ud800": 1}',
    b"x" * (MAX_BODY + 1),
]


def dialogue() -> Dialogue:
    """Two hours of a connection: orders are published and delivered, then hostile bodies."""
    made = Dialogue("shop")
    made.client(BasicConsume(queue="orders", consumer_tag="c")).server(BasicConsumeOk(consumer_tag="c"))
    for tag, body in enumerate(ORDERS, 1):
        made.publish("shop", "orders", body)
        made.content(BasicDeliver("c", tag, False, "shop", "orders"), body)
    later(made, HOUR)
    for body in HOSTILE:
        made.publish("shop", "hostile", body)
    return made.publish("shop", "orders", ORDERS[0])


def counted(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """Messages by hour, queue, path, kind and what it holds."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        assert (row["exchange"], row["user"], row["virtual_host"]) == ("shop", "shop", "/")
        key = (row["ts_ns"] // (HOUR * 10**9), row["queue"], row["path"], row["kind"], row["holds"])
        found[key] += row["count"]
    return found


def made(spark: SparkSession, path: Path, files: list[str], **more: Any) -> Counter[tuple[Any, ...]]:
    settings = jobs.Settings(fields=True, **more)
    with Ledger(str(path)) as held:
        for file in files:
            jobs.ingest(spark, held, held.find([file]).new, settings)
            jobs.settle(spark, held, settings)
        rows = [each.asDict() for each in Tables.of(held).read(spark, "fields").collect()]
        bodies = [each.body for each in Tables.of(held).read(spark, "events").collect()]
    assert {len(each) for each in bodies if each} == ({settings.body} if settings.body else set())
    assert CARD not in repr(rows)
    return counted(rows)


@pytest.mark.both_engines(usual=False)
def test_fields_of_bodies_are_counted_and_values_are_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    whole = tmp_path / NAME.format(0)
    whole.write_bytes(capture_of(dialogue()))
    found = made(spark, tmp_path / "one", [str(whole)])
    first = min(hour for hour, *_ in found)
    for queue in (None, "orders"):
        of_orders = {key[2:]: count for key, count in found.items() if key[:2] == (first, queue)}
        assert of_orders == {
            ("$", "object", None): 3,
            ("$.id", "integer", None): 2,
            ("$.id", "string", None): 1,
            ("$.card", "string", None): 1,
            ("$.card", "string", "card number"): 1,
            ("$.lines", "array", None): 1,
            ("$.lines[]", "object", None): 1,
        }
    later_on = {key[2:]: count for key, count in found.items() if key[0] == first + 1}
    kinds = {kind: later_on.pop(("$", kind, None), 0) for kind in ("binary", "text", "not inspected", "object")}
    assert kinds == {"binary": 1, "text": 4, "not inspected": 1, "object": 1}
    assert later_on == {
        ("$.id", "integer", None): 1,
        ("$.card", "string", None): 1,
        ("$.card", "string", "card number"): 1,
    }
    assert sum(count for key, count in found.items() if key[2] == "$" and key[4] is None) == 13


@pytest.mark.on_duckdb
def test_two_runs_count_as_one(spark: SparkSession, tmp_path: Path) -> None:
    whole = tmp_path / NAME.format(0)
    whole.write_bytes(capture_of(dialogue()))
    packets = packets_of(dialogue())
    parts = [tmp_path / NAME.format(each) for each in (1, 2)]
    for part, some in zip(parts, (packets[:-5], packets[-5:]), strict=True):
        part.write_bytes(pcapng(some))
    found = made(spark, tmp_path / "one", [str(whole)])
    assert made(spark, tmp_path / "two", [str(each) for each in parts]) == found


@pytest.mark.on_duckdb
def test_without_the_option_nothing_is_inspected(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.pcapng").write_bytes(capture_of(dialogue()))
    settings = jobs.Settings(age_ns=0, body=4)
    with Ledger(str(tmp_path / "tables")) as held:
        jobs.ingest(spark, held, held.find([str(tmp_path / "a.pcapng")]).new, settings)
        jobs.settle(spark, held, settings)
        assert "fields" not in held.contents.files
    assert made(spark, tmp_path / "both", [str(tmp_path / "a.pcapng")], body=2)


def test_the_option_is_of_events() -> None:
    assert options_of({"path": "x", "table": "events", "fields": "True"}).fields
    with pytest.raises(ValueError, match="option fields is of the table events"):
        options_of({"path": "x", "fields": "true"})
    with pytest.raises(ValueError, match="option fields: 'yes' is not true or false"):
        options_of({"path": "x", "table": "events", "fields": "yes"})
