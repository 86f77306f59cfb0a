"""Conversion of collected figures to the JSON contract of `--stats`."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.record import json_value
from amqproxy.views.measurements import Measurements
from amqproxy.views.statistics import (
    ErrorCount,
    FindingCount,
    Interval,
    Latencies,
    Measured,
    MessageTotals,
    Rates,
    SideCount,
    Sizes,
    Statistics,
    TimelineReport,
    Top,
    TopConnection,
    TopConnections,
    TopName,
    TopNames,
)
from amqproxy.views.statistics_collector import CLIENT_BYTES, DELIVERED, PUBLISHED, SERVER_BYTES, Collector
from amqproxy.views.top_table import TopTable

USUAL_TOP = 10
"""Entries of each table of the heaviest."""


def statistics_of(found: Collector, *, top: int = USUAL_TOP) -> Statistics:
    """Return the collected figures, with `top` entries in each table of the heaviest."""
    seconds = 0.0 if found.start_ns is None or found.end_ns is None else (found.end_ns - found.start_ns) / 1e9
    timeline = _timeline(found)
    return Statistics(
        start_ns=found.start_ns,
        end_ns=found.end_ns,
        seconds=seconds,
        connections=found.connections,
        frames={str(side): SideCount(**_side(found.frames[side])) for side in (CLIENT, SERVER)},
        lost_bytes=found.lost_bytes,
        messages=MessageTotals(**{name: found.totals[name] for name in MessageTotals.__struct_fields__}),
        rates=_rates(timeline, seconds),
        timeline=timeline,
        latencies=Latencies(
            publish_to_confirm=_measured(found.confirm_seconds),
            delivery_to_ack=_measured(found.ack_seconds),
            connection_to_open=_measured(found.open_seconds),
            requests={name: _known(found.requests[name]) for name in sorted(found.requests)},
        ),
        sizes=Sizes(published=_measured(found.published_bytes), delivered=_measured(found.delivered_bytes)),
        top=Top(
            connections=_top_connections(found.top_connections, top),
            users=_top_connections(found.top_users, top),
            exchanges=_top_names(found.top_exchanges, top),
            routing_keys=_top_names(found.top_routing_keys, top),
            queues=_top_names(found.top_queues, top),
        ),
        errors=[
            ErrorCount(kind=kind, by=by, code=code, text=text, count=count)
            for (kind, by, code, text), count in found.errors.most_common()
        ],
        findings=_findings(found) if found.has_findings else msgspec.UNSET,
    )


def _side(counts: list[int]) -> dict[str, int]:
    return dict(zip(("frames", "heartbeats", "bytes"), counts, strict=True))


def _rates(timeline: TimelineReport, seconds: float) -> Rates:
    series = (timeline.published, timeline.delivered, timeline.bytes)
    published, delivered, size = (sum(each) / seconds if seconds else 0.0 for each in series)
    most_published, most_delivered, most_size = (max(each, default=0) / timeline.seconds for each in series)
    return Rates(
        published=published,
        delivered=delivered,
        bytes=size,
        most_published=most_published,
        most_delivered=most_delivered,
        most_bytes=most_size,
    )


def _timeline(found: Collector) -> TimelineReport:
    start_ns, series = found.timeline.amounts()
    return TimelineReport(
        start_ns=start_ns,
        seconds=found.timeline.interval_ns / 1e9,
        published=series[PUBLISHED],
        delivered=series[DELIVERED],
        bytes=[one + other for one, other in zip(series[CLIENT_BYTES], series[SERVER_BYTES], strict=True)],
    )


def _measured(measurements: Measurements) -> Measured | msgspec.UnsetType:
    return _known(measurements) if measurements.count else msgspec.UNSET


def _known(measurements: Measurements) -> Measured:
    return Measured(
        count=measurements.count,
        least=measurements.least,
        mean=measurements.mean,
        most=measurements.most,
        p50=measurements.percentile(50),
        p90=measurements.percentile(90),
        p99=measurements.percentile(99),
        p999=measurements.percentile(99.9),
        intervals=[Interval(*each) for each in measurements.intervals()],
    )


def _top_connections(table: TopTable[str] | TopTable[str | None], most: int) -> TopConnections:
    return TopConnections(
        is_exact=table.is_exact,
        top=[
            TopConnection(
                name=name,
                bytes=each.weight,
                error=each.error,
                **dict(zip(("frames", "published", "delivered"), each.others, strict=True)),
            )
            for name, each in table.top(most)
        ],
    )


def _top_names(table: TopTable[str] | TopTable[str | None], most: int) -> TopNames:
    return TopNames(
        is_exact=table.is_exact,
        top=[
            TopName(name=json_value(name), messages=each.weight, error=each.error, bytes=each.others[0])
            for name, each in table.top(most)
        ],
    )


def _findings(found: Collector) -> list[FindingCount]:
    ordered = sorted(found.findings.items(), key=lambda each: (-Severity(each[0][1]).rank, -each[1]))
    return [
        FindingCount(kind=kind, severity=severity, count=count, connections=found.finding_connections[kind])
        for (kind, severity), count in ordered
    ]
