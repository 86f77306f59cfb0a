"""Seven hosts, of which all is known that happened: tables and answers are that, in one batch and in five in any order.

Their clocks differ; transactions are rolled back, connections are reset, bytes are lost, messages wait for long, and
many are alike. Hosts record files of their own, cut within connections, which come in any order.
"""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark")

from amqproxy.pipeline.duck import DuckSession
from tests.pipeline.seven_hosts import (
    MS,
    SETTLED,
    STEPS,
    check,
    comparable,
    in_any_order,
    in_batches,
    recorded,
    run,
    tables,
)
from tests.pipeline.simulation import Host, Simulation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.once, pytest.mark.both_engines]


def test_tables_and_answers_are_the_truth_in_one_batch_and_in_five(spark: SparkSession, tmp_path: Path) -> None:
    """In one of two histories, files come after the ones that continue them. By Spark, in two batches: each takes it
    seconds.
    """
    is_quick = isinstance(spark, DuckSession)
    seeds, batches = ({0: in_batches, 1: in_any_order}, 5) if is_quick else ({0: in_any_order}, 2)
    for seed, divided in seeds.items():
        directory = tmp_path / str(seed)
        (directory / "captures").mkdir(parents=True)
        truth, hosts = recorded(directory / "captures", seed)
        run(spark, directory / "one", [[str(file) for host in hosts for file in host.files]])
        run(spark, directory / "several", divided(batches, hosts, random.Random(seed)))
        one, several = tables(directory / "one"), tables(directory / "several")
        for name in SETTLED:
            assert comparable(several[name]) == comparable(one[name]), (seed, name)
        check(directory / "several", truth, hosts)


def test_what_comes_late_or_began_before_is_linked_as_the_truth_has_it(tmp_path: Path) -> None:
    """Hosts that began to record later than others, and files that come in any order.

    Contents that go on in another file may be lost then, and outcomes unknown; but no row is made up, none is linked to
    another publish than its own, and all are whose publish was recorded.
    """
    chosen = random.Random(77)
    (tmp_path / "captures").mkdir()
    hosts = [
        Host(tmp_path / "captures" / f"host-{number}.pcapng", ahead_ns=ahead, packets=150, missed=missed)
        for number, (ahead, missed) in enumerate(((0, 0), (-5_000 * MS, 0), (0, 200), (0, 90)))
    ]
    truth = Simulation(77, *hosts, connections=8).run(STEPS)
    for host in hosts:
        host.close()
    batches: list[list[str]] = [[] for _ in range(4)]
    for host in hosts:
        for file in host.files:
            chosen.choice(batches).append(str(file))
    with closing(DuckSession()) as opened:
        run(cast("SparkSession", opened), tmp_path / "tables", batches)
    found = tables(tmp_path / "tables")
    published = {each.message_id: each for each in truth.published if each.message_id}
    messages = {row["message_id"]: row for row in found["messages"] if row["message_id"]}
    assert len(messages) > len(published) / 2
    for message_id, row in messages.items():
        true = published[message_id]
        assert (row["connection"], row["ts_ns"], row["size"]) == (true.connection, true.ts_ns, true.size)
        assert row["outcome"] in (true.outcome, "unknown", "open"), (row, true)
    linked = 0
    for row in found["deliveries"]:
        publish = messages.get(row["message_id"])
        if row["message_id"] and publish is not None and publish["outcome"] not in ("nacked", "rolled back"):
            linked += 1
            assert row["published_ns"] == publish["ts_ns"], (row, publish)
            assert row["published_connection_id"] == publish["connection_id"]
        elif row["message_id"]:
            assert row["published_ns"] is None
    assert linked > len(found["deliveries"]) / 4
