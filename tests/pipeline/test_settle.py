"""What became of everything, by Spark: it equals the truth, a plain loop, and what `decode --messages` finds."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from amqproxy.capture.decode import FORGOTTEN, read_decoded
from amqproxy.capture.files import read_packets
from amqproxy.capture.observed import observed
from amqproxy.pipeline import schema, small_input
from amqproxy.pipeline.duck import DuckSession
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches
from amqproxy.pipeline.schema import EVENTS
from amqproxy.pipeline.settle import OPEN, Settled, settle
from amqproxy.pipeline.settle import batch as settle_batch
from amqproxy.pipeline.stamps import stamped
from amqproxy.pipeline.tables import read_state, write_state
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.observer import ObserverSettings
from tests.amqp010 import recorded as amqp010
from tests.capture import golden, shared_captures
from tests.capture.building import ACK, RST, ethernet, ipv4, pcap, pcapng, tcp
from tests.pipeline.linked_tables import LinkedTables
from tests.pipeline.rotated import entries_of
from tests.pipeline.settle_oracle import Oracle
from tests.pipeline.simulation import Truth, write_capture

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.once, pytest.mark.both_engines]


WINDOW_NS = 60_000_000_000
"""Longer than a simulation."""

SHORT_NS = 500_000_000
"""Shorter than a simulation, so that some deliveries come later, and counting begins anew."""

Row = dict[str, Any]


NAMES = ("messages", "deliveries", "requests", "connections", "channels", "errors")


def _tables(settled: Settled, linked: LinkedTables | None = None) -> dict[str, list[Row]]:
    """The rows of all tables; with `linked`, deliveries are those of all batches so far, linked."""
    if linked is not None:
        linked.add(settled)
    found = {}
    for name in NAMES:
        rows = getattr(settled, name).toArrow()
        if linked is not None and name == "deliveries":
            rows = linked.deliveries.drop_columns("batch")
        found[name] = [{name: value for name, value in row.items() if value is not None} for row in rows.to_pylist()]
    settled.release()
    return found


def _events(path: Path, chain: str) -> pa.Table:
    return pa.Table.from_batches(list(event_batches(path, chain=chain)))


def _written(spark: SparkSession, path: Path, tables: Iterable[pa.Table]) -> DataFrame:
    pq.write_table(pa.concat_tables(tables), path)
    return read_state(spark, EVENTS, str(path))


def _oracle(events: pa.Table, window_ns: int) -> Oracle:
    return Oracle(window_ns).run(events.to_pylist())


# --- the truth, and a plain loop


def _message_of(row: Row) -> tuple[Any, ...]:
    names = ("connection", "channel", "ts_ns", "exchange", "routing_key", "message_id", "size", "outcome", "latency_ns")
    return (*(row.get(name) for name in names), "route" in row)


def _true_message(each: Any) -> tuple[Any, ...]:
    names = ("connection", "channel", "ts_ns", "exchange", "routing_key", "message_id", "size", "outcome", "latency_ns")
    return (*(getattr(each, name) for name in names), each.is_returned)


_DELIVERY = ("connection", "channel", "ts_ns", "kind", "queue", "redelivered", "outcome", "latency_ns", "requeue")


def _check_truth(tables: dict[str, list[Row]], truths: Sequence[Truth]) -> None:
    published = Counter(_true_message(each) for truth in truths for each in truth.published)
    assert Counter(map(_message_of, tables["messages"])) == published
    delivered = Counter(
        tuple(getattr(each, name) for name in _DELIVERY) for truth in truths for each in truth.delivered
    )
    assert Counter(tuple(row.get(name) for name in _DELIVERY) for row in tables["deliveries"]) == delivered
    assert len(tables["connections"]) == sum(truth.connections for truth in truths)
    assert len(tables["channels"]) == sum(truth.channels for truth in truths)
    _check_links(tables, truths)


def _check_links(tables: dict[str, list[Row]], truths: Sequence[Truth]) -> None:
    """Each delivery that is linked is linked to its publish; and all are that can be."""
    came_from: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for truth in truths:
        for each in truth.delivered:
            came_from[each.connection, each.channel, each.ts_ns, each.queue].append(each)
    linked = 0
    for row in tables["deliveries"]:
        candidates = came_from[row["connection"], row["channel"], row["ts_ns"], row["queue"]]
        expected = {each.published.ts_ns for each in candidates}
        if "published_ns" in row:
            linked += 1
            assert row["published_ns"] in expected
            assert row["transit_ns"] == row["ts_ns"] - row["published_ns"] <= WINDOW_NS
        elif row.get("message_id"):
            assert all(row["ts_ns"] - each > WINDOW_NS for each in expected)
    assert linked > len(tables["deliveries"]) / 2


def _check_oracle(tables: dict[str, list[Row]], oracles: Sequence[Oracle]) -> None:
    messages: Counter[Any] = Counter()
    deliveries: Counter[Any] = Counter()
    counts: Counter[Any] = Counter()
    channels: Counter[Any] = Counter()
    key = ("connection_id", "channel", "epoch", "number", "ts_ns", "outcome", "settled_ns")
    for oracle in oracles:
        messages.update((*(row[name] for name in key), row["route"]) for row in oracle.messages)
        for row in oracle.deliveries:
            publish = row.get("publish", {})
            link = tuple(publish.get(name) for name in ("connection_id", "channel", "epoch", "number", "ts_ns"))
            counted = row.get("redelivery_count", int(row["redelivered"]))
            deliveries[*(row[name] for name in key), row["settled_requeue"], counted, *link] += 1
        counts.update(oracle.counts)
        channels.update(oracle.channel_counts)
    assert Counter((*map(row.get, key), row.get("route")) for row in tables["messages"]) == messages
    names = (*(name if name != "number" else "delivery_tag" for name in key), "requeue", "redelivery_count")
    link = ("published_connection_id", "published_channel", "published_epoch", "published_number", "published_ns")
    assert Counter(tuple(map(row.get, (*names, *link))) for row in tables["deliveries"]) == deliveries
    found = {
        (row["connection_id"], what): row[what]
        for row in tables["connections"]
        for what in ("published", "delivered")
        if row[what]
    }
    assert found == counts
    of_channels = {
        (row["connection_id"], row["channel"], row["epoch"], what): row[what]
        for row in tables["channels"]
        for what in ("published", "delivered")
        if row[what]
    }
    assert of_channels == channels
    _check_ends(tables, oracles)


def _check_ends(tables: dict[str, list[Row]], oracles: Sequence[Oracle]) -> None:
    """When connections and channels ended, and by whom; a channel ends with its connection."""
    closed = {key: row for oracle in oracles for key, row in oracle.closed.items()}
    found = {row["connection_id"]: _end_of(row) for row in tables["connections"]}
    assert found == {key: _true_end(closed.get(key)) for key in found}
    assert closed.keys() <= found.keys()
    closed_channels = {key: row for oracle in oracles for key, row in oracle.closed_channels.items()}
    for row in tables["channels"]:
        key = (row["connection_id"], row["channel"], row["epoch"])
        if key in closed_channels:
            assert _end_of(row) == _true_end(closed_channels[key])
        else:
            assert _end_of(row) == (_true_end(closed.get(key[0]))[0], None, None)


def _end_of(row: Row) -> tuple[Any, ...]:
    return row.get("closed_ns"), row.get("closed_by"), row.get("code")


def _true_end(close: Row | None) -> tuple[Any, ...]:
    if close is None:
        return None, None, None
    cut_by = next((peer for peer in ("client", "server") if str(close["text"]).startswith(f"{peer} ")), None)
    return close["ts_ns"], close["by"] or cut_by, close["code"]


def test_it_equals_the_truth_and_a_plain_loop(spark: SparkSession, tmp_path: Path) -> None:
    truths = write_capture(tmp_path / "made.pcapng", range(40, 43), steps=1000, connections=6)
    events = _events(tmp_path / "made.pcapng", "made")
    settled = settle(_written(spark, tmp_path / "events.parquet", [events]), age_ns=0)
    for name in NAMES:
        assert _types(getattr(settled, name)) == _types(spark.createDataFrame([], schema.TABLES[name]))
    assert _types(settled.open) == _types(spark.createDataFrame([], OPEN))
    tables = _tables(settled, LinkedTables(spark, WINDOW_NS))
    _check_truth(tables, truths)
    _check_oracle(tables, [_oracle(events, WINDOW_NS)])
    outcomes = Counter(row["outcome"] for name in ("messages", "deliveries") for row in tables[name])
    assert not {"confirmed", "nacked", "committed", "rolled back", "sent", "open", "unknown"} - set(outcomes)
    assert not {"acked", "rejected", "recovered", "auto-acked"} - set(outcomes)


def _types(rows: DataFrame) -> dict[str, str]:
    return {each.name: str(each.type).replace(" not null", "") for each in rows.toArrow().schema}


# --- batches

CHAINS = 12


def test_batches_give_what_one_gives_wherever_they_are_divided(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chain, of another size and another virtual host, is divided at two places of its own.

    These are the same in each run: of Hypothesis, the one example that there is time for would be the simplest. What is
    large is settled in other ways: where few rows are to be joined to many, and where all are.
    """
    small = small_input.SMALL_BYTES
    chosen = random.Random(13)
    batches: list[list[pa.Table]] = [[], [], []]
    oracles = []
    for number in range(CHAINS):
        path = tmp_path / f"{number}.pcapng"
        write_capture(path, range(number, number + 1), steps=chosen.randint(1, 120), connections=chosen.randint(1, 4))
        events = _of_host(_events(path, f"chain-{number}"), f"host-{number}")
        oracles.append(_oracle(events, SHORT_NS))
        first, second = sorted(chosen.randint(0, events.num_rows) for _ in range(2))
        for batch, rows in zip(batches, (events[:first], events[first:second], events[second:]), strict=True):
            batch.append(_stamped(rows))
    found: dict[str, list[Row]] = defaultdict(list)
    linked = LinkedTables(spark, SHORT_NS)
    carried = None
    for number, batch in enumerate(batches):
        monkeypatch.setattr(small_input, "SMALL_BYTES", small if number == 0 else -1)
        events = _written(spark, tmp_path / f"batch-{number}.parquet", batch)
        settled = settle(events, carried, age_ns=0 if number == 2 else None)
        path = tmp_path / f"open-{number}"
        if number < 2:
            write_state(settled.open, str(path), OPEN)
            carried = read_state(spark, OPEN, str(path))
        for name, rows in _tables(settled, linked).items():
            found[name] = rows if name == "deliveries" else found[name] + rows
    whole = _written(spark, tmp_path / "whole.parquet", [each for batch in batches for each in batch])
    monkeypatch.setattr(settle_batch, "FEW", -1)
    settled = settle(whole, age_ns=0)
    assert settled.is_small is isinstance(spark, DuckSession)
    for name, rows in _tables(settled, LinkedTables(spark, SHORT_NS)).items():
        assert _counted(found[name]) == _counted(rows), name
    _check_oracle(found, oracles)


def _of_host(events: pa.Table, virtual_host: str) -> pa.Table:
    """Events with another virtual host, so that content is like none of other chains."""
    place = events.schema.get_field_index("virtual_host")
    hosts = events.column(place)
    named = pa.compute.if_else(hosts.is_null(), None, pa.scalar(virtual_host))
    return events.set_column(place, events.schema.field(place), named)


def _stamped(events: pa.Table) -> pa.Table:
    """Events as those of one batch of the source: what becomes of contents in another one, their rows do not have."""
    is_content = pa.compute.is_in(events.column("type"), pa.array(["publish", "deliver", "get"]))
    for name in ("outcome", "requeue", "settled_ns", "spans_before"):
        place = events.schema.get_field_index(name)
        column = events.column(place)
        if name in ("outcome", "requeue"):
            column = pa.compute.if_else(is_content, None, column)
        else:
            column = pa.nulls(events.num_rows, column.type)
        events = events.set_column(place, events.schema.field(place), column)
    return pa.Table.from_batches(map(stamped, events.combine_chunks().to_batches()), SCHEMA)


def _counted(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


# --- connections that end without connection.close


def test_a_connection_that_one_end_has_cut_is_an_error_and_one_that_outlasts_the_capture_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole = golden.FOLDER / "server-reset.pcapng"
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(pcap([(each.ts_ns, each.data) for each in read_packets(whole)][:-1]))
    tables = [_events(path, path.name) for path in (whole, cut)]
    found = _tables(settle(_written(spark, tmp_path / "events.parquet", tables), age_ns=0))
    assert [(row["chain"], row["kind"], row["text"]) for row in found["errors"]] == [
        ("server-reset.pcapng", "connection-cut", "server reset the connection")
    ]
    ends = {row["chain"]: (row["text"], row.get("closed_by"), row["is_open"]) for row in found["connections"]}
    assert ends == {
        "server-reset.pcapng": ("server reset the connection", "server", False),
        "cut.pcapng": ("the capture ends", None, True),
    }
    ended = {row["connection_id"]: row["closed_ns"] for row in found["connections"]}
    assert len(found["channels"]) == 2
    assert [row.get("closed_ns") for row in found["channels"]] == [
        ended[row["connection_id"]] for row in found["channels"]
    ]
    assert all(row.get("closed_by") is None for row in found["channels"])


def test_a_connection_that_was_joined_is_cut_and_one_whose_end_was_not_seen_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole = [(each.ts_ns, each.data) for each in read_packets(golden.FOLDER / "server-reset.pcapng")]
    joined = tmp_path / "joined.pcap"
    joined.write_bytes(pcap(whole[len(whole) // 2 :]))
    events = pa.concat_tables([_events(joined, "joined"), _events(golden.FOLDER / "server-reset.pcapng", "forgotten")])
    place = events.schema.get_field_index("text")
    is_end = pa.compute.and_(
        pa.compute.equal(events.column("chain"), "forgotten"), pa.compute.equal(events.column("outcome"), "closed")
    )
    texts = pa.compute.if_else(is_end, pa.scalar(FORGOTTEN), events.column("text"))
    events = events.set_column(place, events.schema.field(place), texts)
    found = _tables(settle(_written(spark, tmp_path / "events.parquet", [events]), age_ns=0))
    assert [(row["chain"], row["kind"]) for row in found["errors"] if row["kind"] != "lost"] == [
        ("joined", "connection-cut")
    ]
    assert {row["chain"]: row["is_open"] for row in found["connections"]} == {"joined": False, "forgotten": True}


UNCONFIRMED = 16
"""Frames of the capture up to its first publish, which is not confirmed yet."""


@pytest.mark.parametrize("by", ["client", "server"])
def test_what_was_published_on_a_cut_connection_is_open(spark: SparkSession, tmp_path: Path, by: str) -> None:
    path = tmp_path / "cut.pcapng"
    path.write_bytes(_cut_by(by))
    found = _tables(settle(_written(spark, tmp_path / "events.parquet", [_events(path, "cut")]), age_ns=0))
    assert [(row["outcome"], row.get("latency_ns")) for row in found["messages"]] == [("open", None)]
    cut = {"text": f"{by} reset the connection", "user": "guest", "virtual_host": "/"}
    assert [{name: row[name] for name in cut} for row in found["errors"]] == [cut]
    (connection,) = found["connections"]
    assert (connection["closed_by"], connection["is_open"]) == (by, False)
    assert [row["closed_ns"] for row in found["channels"]] == [connection["closed_ns"]]


def _cut_by(by: str) -> bytes:
    """A capture of a connection whose only publish is not confirmed when an end resets it."""
    ports = {"client": (40_000, 5672), "server": (5672, 40_000)}
    hosts = {"client": ("10.0.0.1", "10.0.0.2"), "server": ("10.0.0.2", "10.0.0.1")}
    sent = {"client": 1, "server": 1}
    packets = []

    def send(ts_ns: int, sender: str, data: bytes, flags: int = ACK) -> None:
        (source, target), (host, other) = ports[sender], hosts[sender]
        segment = tcp(data, source=source, target=target, seq=sent[sender], flags=flags)
        packets.append((ts_ns, ethernet(ipv4(segment, source=host, target=other))))
        sent[sender] += len(data)

    for entry in list(entries_of(golden.FOLDER / "confirms.pcapng"))[:UNCONFIRMED]:
        send(entry.ts_ns, str(entry.sender), entry.data)
    send(entry.ts_ns + 1_000_000, by, b"", RST | ACK)
    return pcapng(packets)


# --- what is known of clients


def test_a_login_that_was_refused_has_its_user(spark: SparkSession, tmp_path: Path) -> None:
    events = _events(golden.FOLDER / "login-refused.pcapng", "refused")
    found = _tables(settle(_written(spark, tmp_path / "events.parquet", [events]), age_ns=0))
    assert [(row["user"], row["mechanism"], row["product"], row["code"]) for row in found["connections"]] == [
        ("guest", "PLAIN", "Pika Python Client Library", 403)
    ]
    assert [(row["kind"], row["user"]) for row in found["errors"]] == [("login-refused", "guest")]


@pytest.mark.parametrize("is_divided", [False, True])
def test_consumers_are_known_from_the_start_unless_bytes_are_lost(
    spark: SparkSession, tmp_path: Path, is_divided: bool
) -> None:
    names = {"consume-large": True, "consume-large.joined-midway": False, "consume-large.dropped": False}
    events = pa.concat_tables(_events(golden.FOLDER / f"{name}.pcapng", name) for name in names)
    carried = None
    if is_divided:
        last = pa.compute.equal(events.column("outcome"), "closed")
        settled = settle(_written(spark, tmp_path / "first.parquet", [events.filter(pa.compute.invert(last))]))
        open_rows = settled.open_connections.toArrow().to_pylist()
        assert {row["chain"]: row["knows_consumers"] for row in open_rows} == names
        write_state(settled.open, str(tmp_path / "open"), OPEN)
        settled.release()
        carried, events = read_state(spark, OPEN, str(tmp_path / "open")), events.filter(last)
    found = _tables(settle(_written(spark, tmp_path / "events.parquet", [events]), carried, age_ns=0))
    assert {row["chain"]: row["knows_consumers"] for row in found["connections"]} == names


# --- what decode --messages finds


def test_messages_are_those_of_decode_messages(spark: SparkSession, tmp_path: Path) -> None:
    captures = [*golden.captures(), *amqp010.captures(), *shared_captures.files(amqp010.NAMES)]
    tables = [_events(path, path.name) for path in captures]
    found = _tables(settle(_written(spark, tmp_path / "events.parquet", tables), age_ns=0))
    rebuilt: dict[str, Counter[str]] = defaultdict(Counter)
    for name, rebuild in (("messages", _publish), ("deliveries", _delivery), ("requests", _request)):
        for row in found[name]:
            rebuilt[row["chain"]][_line(rebuild(row))] += 1
    _check_names(found, tables)
    for path in captures:
        expected = Counter(
            _line(json.loads(record.to_json()))
            for record in observed(read_decoded(path), ObserverSettings())
            if isinstance(record, MessageRecord) and record.type in ("publish", "deliver", "get", "request")
        )
        assert rebuilt[path.name] == expected, path.name


def _check_names(found: dict[str, list[Row]], tables: Iterable[pa.Table]) -> None:
    """Protocols of connections and names of sessions, of which some are on channel 0."""
    protocols: dict[str, set[str | None]] = defaultdict(set)
    opened: Counter[Any] = Counter()
    for row in (row for table in tables for row in table.to_pylist()):
        protocols[row["connection_id"]].add(row["protocol"])
        if row["type"] == "channel" and row["outcome"] == "opened":
            opened[row["connection_id"], row["channel"], row["epoch"], row["session_name"]] += 1
    rows = found["connections"]
    assert all(row.get("protocol") in protocols[row["connection_id"]] for row in rows)
    assert all("protocol" in row or protocols[row["connection_id"]] == {None} for row in rows)
    assert {row["protocol"] for row in rows if "user" in row} == {"0-9-1", "0-10"}
    key = ("connection_id", "channel", "epoch", "session_name")
    channels = Counter(tuple(map(row.get, key)) for row in found["channels"])
    assert opened <= channels
    assert {each[1] == 0 for each in opened if each[3] is not None} == {True, False}
    assert all(each in opened for each in channels if each[3] is not None)


def _line(record: Row) -> str:
    return json.dumps({name: value for name, value in record.items() if name != "stream"}, sort_keys=True)


def _record(row: Row, sender: str, type: str, **more: Any) -> Row:
    seconds = None if "latency_ns" not in row else row["latency_ns"] / 1e9
    found = {
        **{name: row.get(name) for name in ("ts_ns", "connection", "outcome", "size", "exchange", "routing_key")},
        "from": sender,
        "channel": _channel(row),
        "type": type,
        "seconds": seconds,
        **{name: more[name] or None for name in more},
    }
    if "properties" in row:
        found["properties"] = json.loads(row["properties"])
    if "rules" in row or "verdict" in row:
        found |= {name: row.get(name) for name in ("rules", "tags", "verdict")}
    return {name: value for name, value in found.items() if value is not None}


def _channel(row: Row) -> int | None:
    """A session of AMQP 0-10 may be on channel 0, which otherwise is the connection's own, and then not shown."""
    number: int | None = row.get("channel")
    return None if number == 0 and row.get("method", "").startswith("connection.") else number


def _publish(row: Row) -> Row:
    """A return of a publish that nothing becomes of is a line of its own there."""
    has_return = "return_code" in row and row["outcome"] != "sent"
    return _record(
        row,
        "client",
        "publish",
        number=row["number"],
        confirm_tag=row.get("confirm_tag"),
        mandatory=row["mandatory"],
        code=row["return_code"] if has_return else None,
        reason=row["return_text"] if has_return else None,
    )


def _delivery(row: Row) -> Row:
    found = _record(row, "server", row["kind"], redelivered=row["redelivered"])
    more = ("delivery_tag", "consumer_tag", "queue", "requeue")
    return found | {name: row[name] for name in more if name in row}


def _request(row: Row) -> Row:
    found = _record(row, row["sender"], "request", method=row.get("method"), reply=row.get("reply"))
    for name in ("exchange", "routing_key"):
        found.pop(name, None)
    for name in ("arguments", "reply_arguments"):
        if name in row:
            found[name] = json.loads(row[name])
    return found
