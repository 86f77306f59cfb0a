"""The jobs, from captures to tables: however often they run, and wherever they are cut off, the tables are the same."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from amqproxy.cli.pipeline import driver
from amqproxy.pipeline import jobs, session, source
from amqproxy.pipeline.chains import chains
from amqproxy.pipeline.duck import DuckSession
from amqproxy.pipeline.duck import session as duck_session
from amqproxy.pipeline.ledger import Capture, Ledger, contents
from amqproxy.pipeline.tables import batch_of
from tests.cli.outcome import Amqproxy
from tests.pipeline.made_tables import PowerCut, cut_at, rows, tables, work
from tests.pipeline.rotated import entries_of, recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

CAPTURES = Path(__file__).parents[2] / "captures"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A recording in several files, with connections that go on from one to the next."""
    entries = list(entries_of(CAPTURES / "publish-get-ack.pcapng"))
    return recorded(tmp_path_factory.mktemp("recorder") / "all", entries, is_rotated=True)


@pytest.mark.both_engines(usual=False)
def test_one_run_and_two_with_a_cut_between_give_the_same(
    spark: SparkSession, tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work(spark, tmp_path / "one", files)
    one = tables(tmp_path / "one")
    assert one["messages"]
    assert one["rollup_minute"]
    two = tmp_path / "two"
    work(spark, two, files[: len(files) // 2], counts=False)
    for time in (1, 2):  # when they are settled, and when they are linked
        cut_at(monkeypatch, "deliveries", time)
        with pytest.raises(PowerCut):
            work(spark, two, files)
        monkeypatch.undo()
    work(spark, two, files)
    assert tables(two) == one
    assert [each.batch for each in work(spark, two, files)] == [None] * 4
    with Ledger(str(two)) as held:
        events = len(held.contents.files["events"])
        assert jobs.compact(spark, held, ["events"]).removed == events > 1
        assert jobs._touched(held, "settle", ("events",)) == set(), "what is put together is not settled again"
    assert rows(two, "events") == one["events"]


@pytest.mark.both_engines(usual=False)
def test_files_that_come_late_give_the_tables_of_any_other_order(
    spark: SparkSession, tmp_path: Path, files: list[str]
) -> None:
    """Each has a frame; a message that was got and acknowledged is in several."""
    work(spark, tmp_path / "one", files)
    late = tmp_path / "late"
    work(spark, late, [*files[:LATE], files[-1]])
    done = work(spark, late, files)
    assert tables(late) == tables(tmp_path / "one")
    assert [Path(each).name for each in done[0].again] == ["amqproxy-" + Path(files[0]).stem.rpartition("-")[2]]
    assert driver.sentence(done[0]).endswith("; 1 chain read again for late captures")


LATE = 10
"""Files before those that are late."""


def test_what_is_only_put_together_is_not_new(tmp_path: Path) -> None:
    def staged(held: Ledger, hour: int) -> None:
        file = tmp_path / held.staging("messages") / f"date=2026-11-23/hour={hour}" / "part-0.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"batch": [1]}), file)

    with Ledger(str(tmp_path)) as held:
        for hours in ([7, 8], [7, 8], [8]):
            for hour in hours:
                staged(held, hour)
            held.commit("settle", ["messages"])
        assert jobs._touched(held, "rollup", jobs.CONTENTS) == {("2026-11-23", 7), ("2026-11-23", 8)}
        held.commit("rollup", [], through=2)
        small = held.contents.files["messages"]
        for hour in (7, 8):
            staged(held, hour)
        newest = {f"messages/date=2026-11-23/hour={hour}": batch for hour, batch in ((7, 2), (8, 3))}
        held.commit("compact", ["messages"], removed=small, newest=newest)
        assert [batch_of(file) for file in sorted(held.contents.files["messages"])] == [2, 3]
        assert jobs._touched(held, "rollup", jobs.CONTENTS) == {("2026-11-23", 8)}, "of which batch 3 is new"


def test_a_chain_ends_when_nothing_came_of_it_for_long() -> None:
    day = jobs.DAY_NS
    files = {"a.pcap": 0, "a.pcap1": 8 * day, "b.pcap": 7 * day, "c.pcap": 6 * day, "gone.pcap": -1, "d.pcap": 14 * day}
    captures = [Capture(path, 1, modified_ns, "") for path, modified_ns in files.items()]
    assert jobs.ended_chains(captures, "auto") == {"c.pcap", "gone.pcap"}
    assert jobs.ended_chains([], "auto") == set()


def test_an_hour_begins_where_it_begins() -> None:
    assert jobs._start_ns(("2026-11-24", 0)) == 1_795_478_400 * 1_000_000_000


def test_the_command_says_what_was_done(tmp_path: Path, files: list[str], amqproxy: Amqproxy) -> None:
    ended = amqproxy("pipeline", "ingest", *files, "--tables", str(tmp_path), "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert told["job"] == "ingest"
    assert told["captures"] == len(files)
    assert told["rows"]["events"] > 10
    again = amqproxy("pipeline", "ingest", *files, "--tables", str(tmp_path))
    assert (again.code, again.out) == (0, f"ingest     nothing new: all {len(files)} captures are in already\n")


def test_frames_alone_are_taken_in_by_the_command(tmp_path: Path, files: list[str], amqproxy: Amqproxy) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(Path(files[0]).read_bytes()[:-1])
    arguments = (
        "pipeline",
        "ingest",
        *files,
        str(cut),
        "--frames",
        "--no-events",
        "--tables",
        str(tmp_path / "tables"),
    )
    ended = amqproxy(*arguments, "--json")
    told = json.loads(ended.out)
    assert (ended.code, set(told["rows"])) == (0, {"frames"})
    assert [each["file"] for each in told["lost"]] == [str(cut)]
    assert str(cut) in ended.err
    found = tables(tmp_path / "tables")
    assert list(found) == ["frames"]
    assert len(found["frames"]) == told["rows"]["frames"]
    assert {json.loads(row)["file"] for row in found["frames"]} >= {files[0], str(cut)}
    again = amqproxy(*arguments)
    assert (again.code, again.out) == (0, f"ingest     nothing new: all {len(files) + 1} captures are in already\n")


# --- both engines


def test_both_engines_make_the_same_tables(spark: SparkSession, tmp_path: Path, amqproxy: Amqproxy) -> None:
    """All captures, all jobs, by the command: Spark's session of the tests is the one that it uses."""
    for engine in ("duckdb", "spark"):
        where = ("--tables", str(tmp_path / engine), "--engine", engine)
        ended = amqproxy("pipeline", "run", str(CAPTURES), *where, "--age", "0", "--frames", "--json")
        assert ended.code == 0, ended.err
    one, other = tables(tmp_path / "duckdb"), tables(tmp_path / "spark")
    assert set(one) >= {"events", "frames", "messages", "deliveries", "connections", "rollup_minute", "findings"}
    for name in other:
        assert one[name] == other[name], name


def test_one_engine_continues_what_the_other_began(spark: SparkSession, tmp_path: Path, files: list[str]) -> None:
    """Messages of the first half are delivered in the second: their keys are the same."""
    with closing(DuckSession()) as opened:
        duck = cast("SparkSession", opened)
        work(duck, tmp_path / "one", files, counts=False)
        work(duck, tmp_path / "two", files[:2], counts=False)
        work(spark, tmp_path / "two", files[2:4], counts=False)
        work(duck, tmp_path / "two", files[4:], counts=False)
    one = tables(tmp_path / "one")
    assert any(json.loads(row)["published_connection_id"] for row in one["deliveries"])
    assert tables(tmp_path / "two") == one


def test_processes_read_what_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for least in (duck_session.LEAST_BYTES, 0):
        monkeypatch.setattr(duck_session, "LEAST_BYTES", least)
        monkeypatch.setattr(duck_session, "cores", lambda: 2)
        with closing(DuckSession()) as opened, Ledger(str(tmp_path / str(least))) as held:
            settings = jobs.Settings(has_frames=True)
            jobs.ingest(
                cast("SparkSession", opened), held, held.find(map(str, CAPTURES.glob("*.pcapng"))).new, settings
            )
        found.append(tables(tmp_path / str(least)))
    assert found[0] == found[1]
    assert len(found[0]["frames"]) > 100


def test_a_large_chain_is_shared_from_its_first_run_on(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    half = len(files) // 2
    with closing(DuckSession()) as opened:
        duck = cast("SparkSession", opened)
        work(duck, tmp_path / "one", files, counts=False)
        monkeypatch.setattr(source, "SHARED_BYTES", 0)
        work(duck, tmp_path / "shared", files[:half], counts=False)
        monkeypatch.undo()
        state = contents(str(tmp_path / "shared")).carried["ingest"]["state"]
        assert source.carried_shares(f"{tmp_path}/shared/{state}") == {chain.name: 4 for chain in chains(files, "auto")}
        work(duck, tmp_path / "shared", files[half:], counts=False)
    assert tables(tmp_path / "shared") == tables(tmp_path / "one")


def test_large_captures_are_for_spark(
    tmp_path: Path, files: list[str], amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise session.SparkUnavailable("there is none")

    monkeypatch.setattr(session, "session", refused)
    monkeypatch.setattr(driver, "LARGE_BYTES", 1000)
    given = ("pipeline", "ingest", *files, "--tables", str(tmp_path))
    ended = amqproxy(*given)
    assert (ended.code, "on Spark; --engine duckdb works without" in ended.err) == (1, True)
    assert amqproxy(*given, "--engine", "duckdb").code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--master", "local[2]"), "--master and --ui are for Spark: leave them out with --engine duckdb"),
        (("--live",), "needs Spark: leave out --engine duckdb"),
    ],
)
def test_what_duckdb_does_not_do_is_told(
    tmp_path: Path, amqproxy: Amqproxy, arguments: tuple[str, ...], reason: str
) -> None:
    given = ("pipeline", "run", str(CAPTURES), "--tables", str(tmp_path), "--engine", "duckdb", *arguments)
    ended = amqproxy(*given)
    assert (ended.code, ended.out) == (2, "")
    assert reason in ended.err
