"""Seven hosts, of which all is known that happened: their recordings, and whether tables and answers are that."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from amqproxy.pipeline import jobs
from amqproxy.pipeline.ledger import Ledger, contents
from amqproxy.pipeline.questions import QUESTIONS
from amqproxy.pipeline.questions.answer import answer_of_reader
from amqproxy.pipeline.questions.span import span
from amqproxy.pipeline.reading import Reader
from tests.pipeline.simulation import PAUSE_NS, START_NS, Delivered, Host, Published, Simulation, Truth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MS = 1_000_000
HOUR = 3_600_000 * MS
STEPS = 600
ERROR_NS = 500 * MS
"""Maximum error of a clock: as long as the fastest of the few messages between two hosts takes."""
ALIKE = 5
"""Messages in a queue that may be taken for others that are alike."""
WINDOW_NS = HOUR
"""Longer than messages wait."""

Row = dict[str, Any]


def recorded(directory: Path, seed: int, packets: tuple[int, int] = (100, 500)) -> tuple[Truth, list[Host]]:
    """Recordings of seven hosts, most of whose clocks are right, with so many packets a file."""
    chosen = random.Random(seed)
    ahead = [0, 0, 0, 0, *(chosen.choice((-1, 1)) * chosen.randint(2_000 * MS, 60_000 * MS) for _ in range(3))]
    chosen.shuffle(ahead)
    hosts = [
        Host(directory / f"host-{number}.pcapng", ahead_ns=each, packets=chosen.randint(*packets))
        for number, each in enumerate(ahead)
    ]
    simulation = Simulation(seed, *hosts, connections=14)
    truth = simulation.run(STEPS, pauses=(STEPS // 2,))
    for host in hosts:
        host.close()
    return truth, hosts


def run(spark: SparkSession, path: Path, batches: Sequence[Sequence[str]]) -> None:
    for number, files in enumerate(batches, 1):
        settings = jobs.Settings(age_ns=0 if number == len(batches) else None, window_ns=WINDOW_NS)
        with Ledger(str(path)) as ledger:
            jobs.ingest(spark, ledger, ledger.find(files).new, settings)
            jobs.settle(spark, ledger, settings)
            jobs.link(spark, ledger, settings)
            jobs.rollup(spark, ledger)


def in_batches(count: int, hosts: Iterable[Host], chosen: random.Random) -> list[list[str]]:
    """The files of each host in their order, but each host in batches of its own."""
    batches: list[list[str]] = [[] for _ in range(count)]
    for host in hosts:
        for file, batch in zip(host.files, sorted(chosen.choices(range(count), k=len(host.files))), strict=True):
            batches[batch].append(str(file))
    return batches


def in_any_order(count: int, hosts: Iterable[Host], chosen: random.Random) -> list[list[str]]:
    """Each file in whichever batch, so that many come after the files that continue them."""
    batches: list[list[str]] = [[] for _ in range(count)]
    for host in hosts:
        for file in host.files:
            chosen.choice(batches).append(str(file))
    return batches


def tables(path: Path) -> dict[str, list[Row]]:
    """All tables, without the batches of their rows."""
    found: dict[str, list[Row]] = {}
    for name, files in contents(str(path)).files.items():
        rows = [row for file in files for row in pq.ParquetFile(path / file).read().to_pylist()]
        found[name] = [{key: value for key, value in row.items() if key != "batch"} for row in rows]
    return found


def comparable(rows: Iterable[Row]) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


SETTLED = ("messages", "deliveries", "requests", "connections", "channels", "errors", "clocks", "rollup_minute")


def check(path: Path, truth: Truth, hosts: Sequence[Host]) -> None:
    """Tables and answers are what happened."""
    found = tables(path)
    check_contents(found, truth)
    check_links(found["deliveries"], truth)
    check_clocks(found["clocks"], hosts)
    check_answers(path, truth)


def check_contents(found: dict[str, list[Row]], truth: Truth) -> None:
    """Each message and delivery is a row, with what became of it."""
    message = ("connection", "channel", "ts_ns", "exchange", "routing_key", "message_id", "size", "outcome")
    assert counted(found["messages"], message) == counted(truth.published, message)
    delivery = ("connection", "channel", "ts_ns", "kind", "queue", "redelivered", "outcome", "latency_ns", "requeue")
    assert counted(found["deliveries"], delivery) == counted(truth.delivered, delivery)
    assert len(found["connections"]) == truth.connections
    assert len(found["channels"]) == truth.channels


def counted(rows: Iterable[Any], names: Sequence[str]) -> Counter[Any]:
    return Counter(tuple(row[name] if isinstance(row, dict) else getattr(row, name) for name in names) for row in rows)


def check_links(rows: list[Row], truth: Truth) -> None:
    """Each delivery has the publish that it came from, and the time since, by true clocks."""
    came_from: dict[tuple[Any, ...], list[Delivered]] = defaultdict(list)
    for each in truth.delivered:
        message_id = each.message.properties.message_id
        came_from[each.connection, each.channel, each.ts_ns, each.queue, message_id].append(each)
    wrong = waited = early = 0
    for row in rows:
        candidates = came_from[row["connection"], row["channel"], row["ts_ns"], row["queue"], row["message_id"]]
        publishes = [each.published for each in candidates if each.published is not None]
        if row["message_id"]:
            assert row["published_ns"] in {each.ts_ns for each in publishes}, row
            assert row["published_among"] == 1
            (transit_ns,) = {true_ns(truth, row) - true_ns(truth, each) for each in publishes}
            assert abs(row["transit_ns"] - transit_ns) <= ERROR_NS, (row, transit_ns)
            waited += row["transit_ns"] > 10 * 60_000 * MS
            early += row["ts_ns"] < row["published_ns"]
        elif not row["redelivered"]:
            transits = [true_ns(truth, row) - true_ns(truth, each) for each in publishes]
            found_ns = -PAUSE_NS if row["transit_ns"] is None else row["transit_ns"]
            wrong += min(abs(found_ns - each) for each in transits) > ERROR_NS
    assert waited
    assert early
    assert wrong <= len(rows) / 20


def true_ns(truth: Truth, of: Row | Published) -> int:
    connection, ts_ns = (of["connection"], of["ts_ns"]) if isinstance(of, dict) else (of.connection, of.ts_ns)
    ahead: int = truth.ahead_ns[connection]
    return ts_ns - ahead


def check_clocks(rows: list[Row], hosts: Sequence[Host]) -> None:
    """Differences of clocks are known to less than what the fastest message took."""
    by_hour: dict[Any, dict[str, int]] = defaultdict(dict)
    for row in rows:
        by_hour[row["time"]][Path(row["chain"]).name] = row["offset_ns"]
    assert by_hour
    for found in by_hour.values():
        errors = [found[name] - host.ahead_ns for host in hosts if (name := f"{host.files[0].name}") in found]
        assert max(errors) - min(errors) <= ERROR_NS, (found, errors)


def check_answers(path: Path, truth: Truth) -> None:
    not_acked = [each for each in truth.delivered if each.outcome in ("rejected", "nacked")]
    refused = Counter(each.queue for each in not_acked if not each.requeue)
    returned = Counter(each.routing_key for each in truth.published if each.is_returned)
    redelivered = Counter(each.queue for each in truth.delivered if each.redelivered)
    delivered = Counter(each.queue for each in truth.delivered)
    assert sums(ask(path, "poison", times=1000), "queue", "refused") == refused
    assert sums(ask(path, "unroutable"), "routing_key", "messages") == returned
    assert sums(ask(path, "redeliveries"), "queue", "redelivered") == redelivered
    assert sums(ask(path, "redeliveries"), "queue", "deliveries") == delivered
    assert max(row["longest_ns"] for row in ask(path, "transit")) > PAUSE_NS
    edges = ask(path, "dependencies")
    assert sums(edges, "queue", "delivered") == delivered
    assert sums(edges, "queue", "refused") == Counter(each.queue for each in not_acked)
    failed = Counter(each.exchange for each in truth.published if each.is_returned or each.outcome == "nacked")
    sent = {(row["publisher"], row["exchange"], row["routing_key"]): row for row in edges if row["published"]}.values()
    assert sums(sent, "exchange", "published") == Counter(each.exchange for each in truth.published)
    assert sums(sent, "exchange", "failed") == failed
    settled = [each for each in truth.published if each.outcome in ("confirmed", "nacked")]
    late = [each for each in settled if each.outcome == "nacked" or (each.latency_ns or 0) > 20 * MS]
    confirms = [row for row in ask(path, "objectives", confirm_ms=20.0) if row["what"] == "confirm"]
    assert sums(confirms, "exchange", "messages") == Counter(each.exchange for each in settled)
    assert sums(confirms, "exchange", "missed") == Counter(each.exchange for each in late)
    check_depths(ask(path, "queue-depth"), truth)
    assert sums(ask(path, "clients"), "product", "connections") == {"made up": truth.connections}


def check_depths(rows: list[Row], truth: Truth) -> None:
    """Bounds of each queue's depth hold, but for a few of the messages that are alike."""
    assert {row["queue"] for row in rows} == set(truth.waiting)
    for row in rows:
        depth = truth.waiting[row["queue"]]
        assert row["waiting_least"] - ALIKE <= depth <= row["waiting"] + row["unsettled"] + ALIKE, (row, depth)


def ask(path: Path, name: str, **options: Any) -> list[Row]:
    asked = span(START_NS + 2 * HOUR, 4 * 3600)
    found: list[Row] = answer_of_reader(Reader(str(path)), QUESTIONS[name], asked, options, limit=1000).to_pylist()
    return found


def sums(rows: Iterable[Row], by: str, name: str) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in rows:
        found[row[by]] += row[name]
    return +found
