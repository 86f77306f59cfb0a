"""Which publish each delivery came from: batches find what one run finds, or nothing."""

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
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.schema import EVENTS
from amqproxy.pipeline.settle import settle
from amqproxy.pipeline.tables import read_state
from tests.pipeline.settle_oracle import Oracle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.once, pytest.mark.both_engines]

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
            | ({} if place == 0 else {"queue": f"q{queue}", "redelivered": what == "redeliver"})
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


def _found(deliveries: DataFrame) -> Links:
    return _links(deliveries.select("connection_id", "ts_ns", "published_ns").collect())


def _true(events: Sequence[Row]) -> Links:
    """What a plain loop links."""
    deliveries = Oracle(WINDOW_NS).run(events).deliveries
    return _links([row | {"published_ns": row.get("publish", {}).get("ts_ns")} for row in deliveries])


@pytest.mark.parametrize("chains", [1, 2])
def test_batches_link_what_one_links_or_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chains: int
) -> None:
    """Of contents that are alike, some delivered later than the window after their publish.

    Of one chain, batches link what one links. Of two, publishers in one and consumers in the other, each divided at
    times of its own, they link nothing else. What is small is settled in another way than what is large. These are the
    same in each run: of Hypothesis, the one example that there is time for would be the simplest.
    """
    chosen = random.Random(chains)
    cuts = [chosen.randint(3, 40) for _ in range(2)]
    events = [row for number, each in enumerate(_histories(chosen)) for row in _events(each, number, chains)]
    expected = _true(events)
    batches: list[list[Row]] = [[] for _ in range(4 - chains)]
    for row in events:
        of_chain = cuts if chains == 1 else cuts[row["chain"] == "chain-1" :][:1]
        batches[sum(row["ts_ns"] > START_NS + cut for cut in of_chain)].append(row)
    found: Links = {}
    carried = None
    small = small_input.SMALL_BYTES
    for number, batch in enumerate(batches):
        with monkeypatch.context() as patched:
            patched.setattr(small_input, "SMALL_BYTES", small if number == 1 else -1)
            is_last = number == len(batches) - 1
            table = _table(spark, tmp_path / "batch.parquet", batch)
            settled = settle(table, carried, age_ns=0 if is_last else None, window_ns=WINDOW_NS)
            found |= _found(settled.deliveries)
            carried = settled.open.localCheckpoint()
            settled.release()
    assert found.keys() == expected.keys()
    wrong = {key: (link, expected[key]) for key, link in found.items() if link not in (None, expected[key])}
    assert not wrong
    assert chains > 1 or found == expected
