"""Small tables with known numbers, written without Spark: three hours of two tenants."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from amqproxy.pipeline.ledger import Commit

START = datetime(2026, 11, 22, 22, tzinfo=UTC)
"""The first hour; the third is on the next day."""

START_NS = int(START.timestamp()) * 1_000_000_000

MINUTE = 60 * 1_000_000_000
HOUR = 60 * MINUTE
MS = 1_000_000

TENANTS = {"shop": ("orders", "orders.new", "alice"), "lab": ("probes", "probes.raw", "bob")}
"""Virtual host → exchange, queue, user."""

CONNECTION = "10.0.0.1:50000 → 10.0.0.2:5672"


def write_known_tables(directory: Path) -> None:
    """Each hour, 60 messages of `shop` (100 bytes, one a minute) and 6 of `lab` (1,000 bytes, one in ten minutes).

    The nth message of an hour, from 0, was confirmed after n + 1 ms, delivered after 2 ms, and acknowledged after
    n + 10 ms. The last one of an hour of `shop` was nacked, and its delivery rejected.
    """
    tables: dict[str, list[dict[str, Any]]] = {"messages": [], "deliveries": [], "rollup_minute": []}
    for hour in range(3):
        for host, (exchange, queue, user) in TENANTS.items():
            count, size = (60, 100) if host == "shop" else (6, 1000)
            for n in range(count):
                ts_ns = START_NS + hour * HOUR + n * (60 // count) * MINUTE
                is_bad = host == "shop" and n == count - 1
                who = {"connection_id": f"{host}-0001", "connection": CONNECTION, "user": user, "virtual_host": host}
                who["client"] = f"{user}'s client"
                message = {"ts_ns": ts_ns, "exchange": exchange, "size": size, "latency_ns": (n + 1) * MS, **who}
                tables["messages"].append({**message, "outcome": "nacked" if is_bad else "confirmed"})
                delivery = {"ts_ns": ts_ns, "exchange": exchange, "queue": queue, "size": size, **who}
                delivery |= {"latency_ns": (n + 10) * MS, "transit_ns": 2 * MS}
                tables["deliveries"].append({**delivery, "outcome": "rejected" if is_bad else "acked"})
                for by, name in (("all", None), ("exchange", exchange), ("queue", queue), ("user", user)):
                    sent = (
                        {} if by == "queue" else {"published": 1, "published_bytes": size, "confirmed": int(not is_bad)}
                    )
                    sent |= {} if by == "queue" else {"nacked_publishes": int(is_bad)}
                    got = {"delivered": 1, "delivered_bytes": size, "acked": int(not is_bad), "rejected": int(is_bad)}
                    row = {"ts_ns": ts_ns, "by": by, "name": name, "virtual_host": host, "errors": 2 * is_bad}
                    tables["rollup_minute"].append(row | sent | got)
    who = {"connection_id": "shop-0001", "connection": CONNECTION, "user": "alice", "virtual_host": "shop"}
    closed = {"kind": "channel-closed", "code": 404, "method": "queue.declare", "channel": 1, **who}
    tables["errors"] = [
        {"ts_ns": START_NS + hour * HOUR, "text": f"NOT_FOUND - no queue {hour}", **closed} for hour in range(3)
    ]
    found = {"kind": "no-prefetch", "severity": "warning", "channel": 1, "why": "w", "remedy": "r", **who}
    tables["findings"] = [
        {"ts_ns": START_NS + n, "count": 10**n, "text": f"seen {10**n} times", **found} for n in range(3)
    ]
    tables["findings"].append(
        {**found, "ts_ns": START_NS + HOUR, "kind": "poison", "severity": "error", "text": "round"}
    )
    about = {"subject": "exchange", "virtual_host": "shop", "measure": "rate"}
    told = {"value": 9.0, "expected": 1.0, "deviation": 0.5, "evidence": '{"table": "messages", "exchange": "orders"}'}
    tables["anomalies"] = [
        {"ts_ns": START_NS + HOUR, "name": "orders", "score": 10.8, "text": "9 messages/s, not 1", **about, **told},
        {"ts_ns": START_NS + HOUR, "name": "probes", "score": 3.5, "text": "less", **about, **told},
    ]
    for name, rows in tables.items():
        write_table(directory, name, rows)


def write_table(directory: Path, name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Commit a batch of rows, each in the hour of its `ts_ns`."""
    commits = directory / "_pipeline" / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    batch = len(list(commits.iterdir())) + 1
    files: list[str] = []
    hours: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        ns = row["ts_ns"]
        stored = {**row, "time": datetime.fromtimestamp(ns // 1_000_000_000, UTC), "batch": batch}
        if name in ("rollup_minute", "anomalies"):
            del stored["ts_ns"]
        hours.setdefault(ns // HOUR, []).append(stored)
    for hour, found in hours.items():
        begins = datetime.fromtimestamp(hour * 3600, UTC)
        place = directory / name / f"date={begins:%Y-%m-%d}" / f"hour={begins.hour}"
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"batch-{batch:08}-0.zstd.parquet"
        files.append(str(file.relative_to(directory)))
        columns = dict.fromkeys(key for row in found for key in row)
        pq.write_table(pa.table({key: [row.get(key) for row in found] for key in columns}), file)
    commit = Commit(batch=batch, job=name, through=batch, at="2026-11-23T00:00:00+00:00", files={name: files})
    (commits / f"{batch:08}.json").write_bytes(msgspec.json.encode(commit))
