"""From clients to tables, live: clients → proxy → recorder → `pipeline run --live`, which is killed in between."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from amqproxy.broker import serve_in_thread
from amqproxy.pipeline.analytics import Analytics
from amqproxy.pipeline.ledger import Contents, contents
from amqproxy.pipeline.reading import Reader
from amqproxy.pipeline.span import Span, Subject
from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy, command
from tests.real.require import require, require_module

pytestmark = [pytest.mark.once, pytest.mark.real, pytest.mark.usefixtures("quick_spark_processes")]

PATIENCE = 600.0
"""Seconds for what takes Spark some ten."""

FIRST, SECOND = 40, 30
"""Messages that are published before the driver is killed, and after."""


class Driver:
    """`amqproxy pipeline run --live`, as a process."""

    def __init__(self, captures: Path, tables: Path) -> None:
        arguments = ["run", "--live", str(captures), "--tables", str(tables), "--interval", "1", "--json"]
        self.process = subprocess.Popen(
            [*command(), "pipeline", *arguments, "--master", "local[2]"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def running(self) -> bool:
        return self.process.poll() is None

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


@contextmanager
def driver(captures: Path, tables: Path) -> Iterator[Driver]:
    running = Driver(captures, tables)
    try:
        yield running
    finally:
        if running.running():
            running.process.kill()
            running.process.communicate()


def publish(channel: Any, count: int) -> None:
    for number in range(count):
        properties = pika.BasicProperties(message_id=f"{number} of {count}")
        channel.basic_publish("orders", "eu", b"x" * 100, properties, mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("orders", "nowhere", b"lost", mandatory=True)


def consume(channel: Any, count: int) -> None:
    """Acknowledge all but the first, which is refused, and comes again."""
    for number in range(count + 1):
        method, _, _ = until(lambda: _got(channel), "a message")
        if number == 0:
            channel.basic_nack(method.delivery_tag, requeue=True)
        else:
            channel.basic_ack(method.delivery_tag)


def _got(channel: Any) -> Any:
    found = channel.basic_get("eu")
    return found if found[0] is not None else None


def rows(tables: Path, name: str) -> list[dict[str, Any]]:
    from pyarrow import parquet

    files = contents(str(tables)).files.get(name, [])
    return [row for file in files for row in parquet.ParquetFile(tables / file).read().to_pylist()]


def names(captures: Path) -> set[str]:
    """The captures that are closed."""
    return {
        file.name.removesuffix(".zst")
        for file in captures.iterdir()
        if file.name.startswith("amqproxy-") and not file.name.endswith(".partial")
    }


def settled(tables: Path) -> Contents | None:
    """What is committed, if all that was ingested is settled and counted."""
    found = contents(str(tables))
    done = found.through
    is_done = done.get("ingest", 0) and done.get("settle") == done["ingest"]
    return found if is_done and done.get("rollup", 0) >= done["settle"] else None


def test_what_clients_did_is_in_the_tables_exactly_once(start_proxy: StartProxy, tmp_path: Path) -> None:
    require_module("pyspark", package="'amqproxy[pipeline]'")
    require("java", package="openjdk-17-jre-headless")
    captures, tables = tmp_path / "captures", tmp_path / "tables"
    with serve_in_thread() as broker:
        proxy: Proxy = start_proxy(broker.port, record={"directory": str(captures), "file_age": 1})
        with connected(proxy, heartbeat=0) as publisher, connected(proxy, heartbeat=0) as consumer:
            publishing, consuming = publisher.channel(), consumer.channel()
            publishing.confirm_delivery()
            publishing.exchange_declare("orders", "topic")
            publishing.queue_declare("eu")
            publishing.queue_bind("eu", "orders", "eu")
            publish(publishing, FIRST)
            consume(consuming, FIRST // 2)
            until(lambda: names(captures), "a closed file")
            with driver(captures, tables) as first:
                until(lambda: contents(str(tables)).batch or not first.running(), "the first batch", PATIENCE)
                assert first.running(), first.ended()
                first.process.kill()  # between what it ingested and what became of it
            publish(publishing, SECOND)
            consume(consuming, SECOND)
        proxy.terminate()
        assert proxy.wait() == 0
        with driver(captures, tables) as second:

            def is_done() -> bool:
                if not second.running():
                    return True
                found = settled(tables)
                return found is not None and {Path(each).name for each in found.captures} == names(captures)

            until(is_done, "all files to be taken in", PATIENCE)
            second.process.terminate()
            code, out, err = second.ended()
        assert code == 0, err
        assert err.endswith("amqproxy: stopped; open requests continue on the next run\n")
        assert {json.loads(line)["job"] for line in out.splitlines()} >= {"ingest", "settle", "rollup"}

    published = FIRST + SECOND
    messages = rows(tables, "messages")
    assert Counter(row["outcome"] for row in messages) == {"confirmed": published + 2}
    assert sum(row["route"] == "returned" for row in messages) == 2
    assert all(row["latency_ns"] > 0 for row in messages)
    deliveries = rows(tables, "deliveries")
    assert Counter(row["outcome"] for row in deliveries) == {"acked": FIRST // 2 + SECOND, "nacked": 2}
    assert sum(row["redelivered"] for row in deliveries) == 2
    assert all(row["transit_ns"] > 0 for row in deliveries)
    connections = rows(tables, "connections")
    assert sorted((row["published"], row["delivered"]) for row in connections) == [
        (0, len(deliveries)),
        (published + 2, 0),
    ]
    assert not any(row["is_open"] for row in connections)
    minutes = [row for row in rows(tables, "rollup_minute") if row["by"] == "all"]
    assert sum(row["published"] for row in minutes) == published + 2
    assert sum(row["acked"] for row in minutes) == FIRST // 2 + SECOND
    check_analytics(tables, published + 2, FIRST // 2 + SECOND)
    check_report(tables, tmp_path / "report.html", published + 2, len(deliveries))


def check_analytics(tables: Path, published: int, acked: int) -> None:
    """What the Analytics screen asks has what the clients did."""
    analytics = Analytics(Reader(str(tables)))
    start_ns, end_ns = analytics.span() or (0, 0)
    points = analytics.traffic(Span.chosen(start_ns, end_ns, None))
    assert (sum(each["published"] for each in points), sum(each["acked"] for each in points)) == (published, acked)
    [orders] = analytics.top(Span.chosen(start_ns, end_ns, None, by=Subject.EXCHANGE), 10)
    assert (orders["name"], orders["published"], orders["returned"]) == ("orders", published, 2)
    latencies = analytics.latencies(Span.chosen(start_ns, end_ns, None))
    assert sum(each["confirm_count"] for each in latencies) == published


def check_report(tables: Path, page: Path, published: int, delivered: int) -> None:
    """The report has what the clients did."""
    arguments = ["report", "--tables", str(tables), "--to", str(page)]
    subprocess.run([*command(), "pipeline", *arguments], check=True, capture_output=True, timeout=PATIENCE)
    text = page.read_text()
    assert f"<b>{published}</b><span>messages published" in text
    assert f"<b>{delivered}</b><span>messages delivered" in text
    assert "NO_ROUTE" in text, "of the two that were returned"
    plots = json.loads(text.partition('<script type="application/json" id="plots">')[2].partition("</script>")[0])
    times, series = plots[0]["times"], {each["name"]: each["values"] for each in plots[0]["series"]}
    seconds = (times[1] - times[0]) / 1000
    drawn = {name: round(sum(filter(None, values)) * seconds) for name, values in series.items()}
    assert (drawn["published"], drawn["delivered"]) == (published, delivered)
