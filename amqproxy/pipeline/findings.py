"""Findings: likely mistakes and problems, from the table `events`.

Findings about one connection are in `events`: the source makes them in the same pass, by the detectors that run live.
Findings across connections are made here, over all given files, hosts and days: Spark selects and orders the few
relevant events, and the detectors of `amqproxy.taps.findings` then process them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from amqproxy.amqp091.methods import BasicConsume, BasicGet, BasicPublish, BasicReturn, QueueDeclare
from amqproxy.amqp091.properties import NO_PROPERTIES
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.pipeline.client_property import CLIENT_NAME
from amqproxy.pipeline.event_rows import KEPT
from amqproxy.pipeline.recorded_methods import method_of
from amqproxy.pipeline.schema import FINDINGS
from amqproxy.pipeline.settle.settlements import columns
from amqproxy.taps.findings.connection_churn import ConnectionPerMessage
from amqproxy.taps.findings.consumer_cancelled import ConsumerCancelled
from amqproxy.taps.findings.finding import RecordNumber
from amqproxy.taps.findings.process_detector import ConnectionPlace, ProcessDetector, Sighting
from amqproxy.taps.findings.process_inspector import PROCESS_DETECTORS
from amqproxy.taps.findings.unconsumed_queue import UnconsumedQueue
from amqproxy.taps.record import encoded
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    ConnectionOpened,
    HistoryLost,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    Settlement,
    StateRestored,
    TraceEvent,
)
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot

Across = Literal["broker", "chain"]

ACROSS_CONNECTIONS = tuple(each.kind for each in PROCESS_DETECTORS)
"""Kinds of findings that need several connections."""

_ASKED = (
    *(
        "basic.cancel",
        "basic.consume",
        "message.subscribe",
        "basic.get",
        "queue.declare",
        "queue.bind",
        "queue.unbind",
        "queue.delete",
    ),
    "queue.purge",
)
"""Requests that show which queues exist, and which have consumers."""

_MESSAGES = "type IN ('publish', 'deliver', 'get') OR type = 'request' AND reply = 'basic.get-empty'"

_REFUSED = """
    type = 'publishes-settled' AND outcome IN ('nacked', 'rolled back') OR type = 'return'
    OR type = 'channel' AND outcome = 'closed'
"""
"""Publishes that the broker refused, and closes of channels, which may be refusals."""

SECOND = 1_000_000_000


def _texts(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{each}'" for each in values)


_FOUND = pa.schema(
    [
        ("chain", pa.string()),
        ("connection_id", pa.string()),
        ("connection", pa.string()),
        ("ts_ns", pa.int64()),
        ("channel", pa.int32()),
        ("kind", pa.string()),
        ("severity", pa.string()),
        ("text", pa.string()),
        ("count", pa.int64()),
        ("why", pa.string()),
        ("remedy", pa.string()),
        ("evidence", pa.string()),
    ]
)


def findings(events: DataFrame, *, since_ns: int | None = None, across: Across = "broker") -> DataFrame:
    """Return rows of the table `findings` for the time from `since_ns` on; earlier events are context.

    Users and clients are taken from the openings among the events. Connections are analysed together if they belong to
    one `broker`, by its cluster name, or else to one `chain` of captures.
    """
    spark = events.sparkSession
    ordered = (
        spark.sql(_NEEDED.replace("{broker}", _BROKER[across]), events=events)
        .repartition("broker")
        .sortWithinPartitions("broker", "ts_ns", "stream", "connection_id", "seq")
    )
    found = ordered.mapInArrow(_found, from_arrow_schema(_FOUND))
    since = "" if since_ns is None else f"WHERE f.ts_ns >= {since_ns}"
    return spark.sql(f"{_FINDINGS} {since}", events=events, found=found)


# --- what the detectors need to see

_COLUMNS = (
    *("chain", "connection_id", "connection", "stream", "ts_ns", "seq", "channel", "type", "sender", "outcome"),
    *("method", "arguments", "reply", "reply_arguments", "exchange", "routing_key", "user", "virtual_host"),
    *("client_properties", "number", "awaits", "spans", "by", "code", "is_certain"),
)

_BROKER = {
    "broker": """coalesce(
        concat('cluster ', max(get_json_object(server_properties, '$.cluster_name'))), concat('chain ', chain)
    )""",
    "chain": "chain",
}
"""Name of the broker of a chain, by what is analysed together."""

_TICK = {"chain": "chain", "ts_ns": "ts_ns", "type": "'tick'"}

_NEEDED = f"""
    WITH lasting AS (SELECT * FROM {{events}} WHERE connection_id IS NOT NULL),
    asked AS (SELECT * FROM lasting WHERE type = 'request' AND method IN ({_texts(_ASKED)})),
    published AS (
        SELECT *, ts_ns DIV {SECOND} AS second FROM lasting WHERE type = 'publish' AND expiration IS NULL
    ),
    places AS (
        SELECT exchange, routing_key FROM asked WHERE method = 'queue.bind'
        UNION SELECT '', queue FROM asked WHERE method = 'queue.declare'
    ),
    got AS (
        SELECT *, row_number() OVER (PARTITION BY connection_id, queue, ts_ns DIV {SECOND} ORDER BY ts_ns, seq) AS place
        FROM lasting WHERE type = 'get'
    ),
    ticks AS (
        SELECT chain, explode(array(first_ns, last_ns)) AS ts_ns
        FROM (SELECT chain, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM published GROUP BY chain, second)
    ),
    needed AS (
        SELECT {columns(_COLUMNS)} FROM asked
        UNION ALL SELECT {columns(_COLUMNS)} FROM lasting
            WHERE type = 'connection' AND outcome IN ('opened', 'closed', 'joined') OR type = 'lost' OR {_REFUSED}
        UNION ALL SELECT /*+ BROADCAST(q) */ {columns(_COLUMNS, "p")} FROM published p
            LEFT SEMI JOIN places q ON q.exchange = p.exchange AND q.routing_key = p.routing_key
        UNION ALL SELECT {columns(_COLUMNS).replace("`routing_key`", "queue")} FROM got WHERE place = 1
        UNION ALL SELECT {", ".join(_TICK.get(each, "NULL") for each in _COLUMNS)} FROM ticks
    )
    SELECT /*+ BROADCAST(b) */ n.*, m.messages, b.broker
    FROM needed n
    JOIN (SELECT chain, {{broker}} AS broker FROM lasting GROUP BY chain) b ON b.chain = n.chain
    LEFT JOIN (SELECT connection_id, count(*) AS messages FROM lasting WHERE {_MESSAGES} GROUP BY connection_id) m
        ON m.connection_id = n.connection_id
"""
"""Events for detectors: of publishes, those that may reach a declared queue and stay there.

All other events are reduced to a tick at the beginning and the end of each second, which shows the passing of time.
Messages got from a queue appear once a second, with the queue as the routing key. A close has the number of messages on
its connection.
"""

# --- the table

_GIVEN = {
    **{name: f"f.`{name}`" for name in _FOUND.names},
    **{name: f"w.`{name}`" for name in ("user", "client", "virtual_host")},
    "time": "timestamp_micros(f.ts_ns DIV 1000)",
}

_FINDINGS = f"""
    SELECT {", ".join(f"{_GIVEN[name]} AS `{name}`" for name in FINDINGS.fieldNames())}
    FROM (
        SELECT {columns(_FOUND.names)} FROM {{events}}
        WHERE type = 'finding' AND kind NOT IN ({_texts(ACROSS_CONNECTIONS)})
        UNION ALL SELECT {columns(_FOUND.names)} FROM {{found}}
    ) f
    LEFT JOIN (
        SELECT connection_id, `user`, virtual_host, {CLIENT_NAME} AS client,
            row_number() OVER (PARTITION BY connection_id ORDER BY ts_ns, seq) AS place
        FROM {{events}}
        WHERE type = 'connection' AND (outcome = 'opened' OR outcome = 'joined' AND virtual_host IS NOT NULL)
    ) w ON w.connection_id = f.connection_id AND w.place = 1
"""
"""The findings with the peer of each connection, from its opening or a snapshot."""


# --- the detectors


def _found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the findings in rows that are ordered by broker and time."""
    broker: str | None = None
    connections = _Connections()
    for batch in batches:
        rows: list[dict[str, Any]] = []
        for row in batch.to_pylist():
            if row["broker"] != broker:
                broker, connections = row["broker"], _Connections()
            rows += connections.take(row)
        yield pa.RecordBatch.from_pylist(rows, schema=_FOUND)


class _RowNumber(RecordNumber, frozen=True):
    """A row of `events` as evidence."""

    connection_id: str = ""


class _Connections:
    """All connections of a broker, as the detectors see them."""

    def __init__(self) -> None:
        self._cancelled = ConsumerCancelled()
        self._churn = ConnectionPerMessage()
        self._unconsumed = UnconsumedQueue()
        self._numbers: dict[str, int] = {}
        self._rows: dict[int, dict[str, Any]] = {}
        self._last = 0

    def take(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the findings that a row completes."""
        ts_ns, type_ = row["ts_ns"], row["type"]
        if type_ == "tick":
            looking: tuple[ProcessDetector, ...] = (self._cancelled, self._unconsumed)
            return [self._row(detector, each, ts_ns) for detector in looking for each in detector.look(ts_ns)]
        place = self._place(row)
        record = _RowNumber(sender="", number=row["seq"] or 0, stream=place.stream, connection_id=row["connection_id"])
        event = _event(row)
        is_closed = isinstance(event, ConnectionClosed)
        if is_closed:
            for _ in range(min(row["messages"] or 0, 2)):  # one, or several
                self._show(self._churn, _published(row), place, record)
            self._numbers.pop(row["connection_id"], None)
        if event is None:
            return []
        rows = self._show(self._unconsumed, event, place, record)
        if row["outcome"] != KEPT:
            rows += self._show(self._cancelled, event, place, record)
        if is_closed or isinstance(event, ConnectionOpened):
            rows += self._show(self._churn, event, place, record)
        return rows

    def _show(
        self, detector: ProcessDetector, event: TraceEvent, place: ConnectionPlace, record: RecordNumber
    ) -> list[dict[str, Any]]:
        handler = detector.handlers.get(type(event))
        sightings = handler(detector, place, event, record) if handler else None
        return [self._row(detector, each, event.ts_ns) for each in sightings or ()]

    def _place(self, row: dict[str, Any]) -> ConnectionPlace:
        number = self._numbers.get(row["connection_id"])
        if number is None:
            number = self._numbers[row["connection_id"]] = self._last = self._last + 1
            self._rows[number] = {name: row[name] for name in ("chain", "connection_id", "connection")}
        name = row["connection"] or ""
        return ConnectionPlace(number, name, name.partition("-")[0].rpartition(":")[0].strip("[]"))

    def _row(self, detector: ProcessDetector, sighting: Sighting, ts_ns: int) -> dict[str, Any]:
        shown = [
            {"connection_id": each.connection_id, "seq": each.number}
            for each in sighting.evidence
            if isinstance(each, _RowNumber)
        ]
        return self._rows[sighting.connection.stream] | {
            "ts_ns": ts_ns if sighting.ts_ns is None else sighting.ts_ns,
            "channel": sighting.channel,
            "kind": detector.kind,
            "severity": str(detector.severity),
            "text": sighting.text,
            "count": sighting.times,
            "why": detector.why,
            "remedy": detector.remedy,
            "evidence": encoded(shown).decode() if shown else None,
        }


def _event(row: dict[str, Any]) -> TraceEvent | None:
    """Return the event of a row, as far as detectors read it."""
    ts_ns, channel = row["ts_ns"], row["channel"] or 0
    sender = SERVER if row["sender"] == SERVER else CLIENT
    match row["type"], row["outcome"]:
        case "connection", "opened":
            return _opened(row)
        case "connection", "closed":
            method, code = row["method"], row["code"] or 0
            return ConnectionClosed(ts_ns=ts_ns, by=_closer(row), code=code, text="", method=method)
        case "channel", "closed":
            method, code = row["method"], row["code"] or 0
            return ChannelClosed(
                ts_ns=ts_ns, channel=channel, by=_closer(row) or CLIENT, code=code, text="", method=method
            )
        case "publishes-settled", outcome:
            spans = tuple(Span(each["first"], each["last"], each["ts_ns"]) for each in row["spans"] or ())
            return PublishesSettled(ts_ns=ts_ns, channel=channel, outcome=Settlement(outcome), spans=spans)
        case "return", _:
            returned = BasicReturn(0, "", row["exchange"] or "", row["routing_key"] or "")
            return MessageReturned(
                ts_ns=ts_ns, channel=channel, number=row["number"], method=returned, properties=NO_PROPERTIES, size=0
            )
        case "connection", "joined" if row["is_certain"] is not None:
            channels = () if row["is_certain"] else (ChannelSnapshot(number=1, knows_consumers=False),)
            snapshot = ConnectionSnapshot(ts_ns=ts_ns, protocol="", channels=channels)
            return StateRestored(ts_ns=ts_ns, virtual_host=row["virtual_host"], snapshot=snapshot)
        case ("lost", _) | ("connection", "joined"):
            return HistoryLost(ts_ns=ts_ns, channel=channel, sender=None, reason="")
        case "publish", _:
            return _published(row)
        case "get", _:
            got = BasicGet(queue=row["routing_key"] or "")
            return RequestSent(ts_ns=ts_ns, channel=channel, sender=CLIENT, request=got)
        case "request", _:
            request = method_of(row["method"], row["arguments"])
            reply = method_of(row["reply"], row["reply_arguments"]) if row["reply"] else None
            if row["outcome"] == "answered" and reply is not None:
                return RequestAnswered(
                    ts_ns=ts_ns, channel=channel, sender=sender, request=request, reply=reply, latency_ns=None
                )
            if row["method"] == "message.subscribe":
                request = BasicConsume(queue=(msgspec.json.decode(row["arguments"] or b"{}")).get("queue") or "")
            is_done = row["outcome"] == "answered" and not isinstance(request, QueueDeclare)  # some have no reply
            if request is not None and (is_done or row["outcome"] in ("sent", KEPT)):
                return RequestSent(ts_ns=ts_ns, channel=channel, sender=sender, request=request)
    return None


def _closer(row: dict[str, Any]) -> Peer | None:
    """Return the peer in whose name a connection or channel was closed."""
    return None if row["by"] is None else SERVER if row["sender"] == SERVER else CLIENT


def _opened(row: dict[str, Any]) -> ConnectionOpened:
    return ConnectionOpened(
        ts_ns=row["ts_ns"],
        virtual_host=row["virtual_host"],
        mechanism=None,
        user=row["user"],
        client_properties=msgspec.json.decode(row["client_properties"]) if row["client_properties"] else None,
        server_properties=None,
        channel_max=None,
        frame_max=None,
        heartbeat=None,
        latency_ns=None,
    )


def _published(row: dict[str, Any]) -> MessagePublished:
    return MessagePublished(
        ts_ns=row["ts_ns"],
        channel=row["channel"] or 0,
        number=row["number"] or 0,
        method=BasicPublish(exchange=row["exchange"] or "", routing_key=row["routing_key"] or ""),
        properties=NO_PROPERTIES,
        size=0,
        awaits=row["awaits"],
    )
