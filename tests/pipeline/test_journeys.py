"""Which publish each delivery came from: batches find what one run finds, in whatever order they come."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from amqproxy.pipeline import small_input
from amqproxy.pipeline.duck import DuckSession
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.schema import EVENTS
from amqproxy.pipeline.settle import settle
from amqproxy.pipeline.tables import read_state
from tests.pipeline.linked_tables import LinkedTables
from tests.pipeline.settle_oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.once, pytest.mark.both_engines(usual=False)]

HISTORIES = 100
WINDOW_NS = 10
START_NS = 1_700_000_000_000_000_000

Row = dict[str, Any]
Links = dict[tuple[str, int], int | None]
"""By the connection and the time of a delivery, when that was published which it is linked to."""


Happening = tuple[int, str, int, int]
"""How long after the one before, what it is, of which content, and from which queue."""


def _histories(chosen: random.Random) -> list[list[Happening]]:
    """Many small ones, each in a virtual host of its own: a run of Spark is for all of them."""
    kinds = ("publish", "publish", "deliver", "deliver", "redeliver")
    return [
        [
            (chosen.choice((1, 2, 3, 7, 12)), chosen.choice(kinds), chosen.randint(0, 1), chosen.randint(0, 1))
            for _ in range(chosen.randint(3, 14))
        ]
        for _ in range(HISTORIES)
    ]


def _events(history: list[Happening], number: int, chains: int) -> list[Row]:
    """The events of a history; publishes and deliveries are in different chains if there are several."""
    host, ts_ns, seq = f"host-{number}", START_NS, count(1)
    ends = [f"{host}-publisher", f"{host}-consumer"]
    rows = [
        _row(chain=_chain(ends[place], place, chains), connection_id=ends[place], ts_ns=START_NS, seq=0, channel=0)
        | {"epoch": 1, "type": "connection", "outcome": "opened", "virtual_host": host}
        for place in (0, 1)
    ]
    for after, what, content, queue in history:
        ts_ns += after
        place = 0 if what == "publish" else 1
        rows.append(
            _row(chain=_chain(ends[place], place, chains), connection_id=ends[place], ts_ns=ts_ns, seq=next(seq))
            | {"channel": 1, "epoch": 1, "type": "publish" if place == 0 else "deliver", "number": len(rows)}
            | {"exchange": "x", "routing_key": "k", "digest": f"digest-{content}", "size": 1, "awaits": False}
            | (
                {}
                if place == 0
                else {"queue": f"q{queue}", "redelivered": what == "redeliver", "delivery_tag": len(rows)}
            )
        )
    return rows


def _chain(connection: str, place: int, chains: int) -> str:
    return f"chain-{place % chains}"


def _row(**values: Any) -> Row:
    return {**dict.fromkeys(SCHEMA.names), **values}


def _table(spark: SparkSession, path: Path, rows: Sequence[Row]) -> DataFrame:
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), path)
    return read_state(spark, EVENTS, str(path))


def _links(rows: Sequence[Any]) -> Links:
    return {(row["connection_id"], row["ts_ns"]): row["published_ns"] for row in rows}


def _true(events: Sequence[Row]) -> Links:
    """What a plain loop links."""
    deliveries = Oracle(WINDOW_NS).run(events).deliveries
    return _links([row | {"published_ns": row.get("publish", {}).get("ts_ns")} for row in deliveries])


@pytest.mark.parametrize("chains", [1, 2])
def test_batches_in_any_order_link_what_one_links(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chains: int
) -> None:
    """Of contents that are alike, some delivered later than the window after their publish.

    The batches are what publishers and consumers did before and after some times of their own, in any order. Of two
    chains some deliveries are before their publishes, so that clocks are corrected. These are the same in each run: of
    Hypothesis, the one example that there is time for would be the simplest.
    """
    chosen = random.Random(chains)
    events = [row for number, each in enumerate(_histories(chosen)) for row in _events(each, number, chains)]
    cuts = {"chain-0": chosen.randint(3, 40), "chain-1": chosen.randint(3, 40)}
    batches: dict[tuple[str, bool], list[Row]] = {}
    opened = [row for row in events if row["type"] == "connection"]
    for row in events:
        if row["type"] != "connection":
            batches.setdefault((row["chain"], row["ts_ns"] > START_NS + cuts[row["chain"]]), []).append(row)
    whole, linked = LinkedTables(spark, WINDOW_NS), LinkedTables(spark, WINDOW_NS)
    _add(whole, spark, tmp_path, events)
    in_any_order = chosen.sample(list(batches.values()), len(batches))
    if not isinstance(spark, DuckSession):  # the text is the same, and each batch takes it seconds
        in_any_order = [in_any_order[0], [row for batch in in_any_order[1:] for row in batch]]
    for number, batch in enumerate(in_any_order):
        monkeypatch.setattr(small_input, "SMALL_BYTES", 1 << 30 if number % 2 else -1)
        _add(linked, spark, tmp_path, [*opened, *batch])
    found = _links(linked.deliveries.to_pylist())
    assert found == _links(whole.deliveries.to_pylist())
    assert sum(each is not None for each in found.values()) > len(found) / 5
    assert _without_batch(linked.deliveries) == _without_batch(whole.deliveries)
    clocks = _without_batch(linked.clocks)
    assert clocks == _without_batch(whole.clocks)
    assert any("'offset_ns', 0" not in each for each in clocks) is (chains > 1)
    assert chains > 1 or found == _true(events)


def _add(tables: LinkedTables, spark: SparkSession, directory: Path, events: Sequence[Row]) -> None:
    settled = settle(_table(spark, directory / "batch.parquet", events), age_ns=0)
    tables.add(settled)
    settled.release()


def _without_batch(rows: pa.Table) -> list[str]:
    found = [{name: value for name, value in row.items() if name != "batch"} for row in rows.to_pylist()]
    return sorted(str(sorted(row.items())) for row in found)
