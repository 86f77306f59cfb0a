"""docs/metrics.md has every metric that there is, and no other."""

from amqproxy.amqp010.tally import KINDS as AMQP010_KINDS
from amqproxy.amqp091.errors import BY_CODE
from amqproxy.amqp091.protocol_header import OPAQUE
from amqproxy.amqp091.tally import KINDS
from amqproxy.amqp091.transitions import REPLIES, Peer
from amqproxy.proxy.mirroring.mirror_drops import DropReason
from amqproxy.taps.metering.message_counts import BYTES, SECONDS
from amqproxy.taps.metrics import (
    CONNECT_BUCKETS,
    LATENCY_BUCKETS,
    LOGIN_OUTCOMES,
    LOGIN_SOURCES,
    PUMP_RETURNS,
    REFUSALS,
    UPSTREAM_FAILURES,
    Metrics,
)
from amqproxy.taps.object_tap import ObjectMetrics
from tests.monitoring.metrics_page import entries

ENTRIES = entries()


def registered() -> set[tuple[str, str]]:
    """Names and types of all metrics, as Prometheus sees them."""
    metrics = Metrics()
    metrics.count_rules(dict)
    metrics.count_log(lambda: 0)
    metrics.count_loop(lambda: 0.0)
    metrics.count_upstreams(list)
    metrics.count_switches(list)
    metrics.count_certificates(dict)
    ObjectMetrics(("user",), max_series=1, findings=True, registry=metrics.registry)
    found = set()
    for family in metrics.registry.collect():
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        found.add((family.name + suffix, "gauge" if family.type == "info" else family.type))
    return found


def test_each_metric_is_described() -> None:
    described = {(entry.name, entry.type) for entry in ENTRIES}
    assert len(described) == len(ENTRIES)
    assert described == registered()


def test_the_most_series_are_those_of_the_code() -> None:
    """Names that clients choose are not among the labels."""
    codes = len(BY_CODE) + 2  # with 200, and "other"
    expected = {
        "amqproxy_connection_closes_total": 3 * (codes + 1),  # or none
        "amqproxy_channel_closes_total": len(Peer) * codes,
        "amqproxy_protocol_errors_total": len(Peer) * len(BY_CODE),
        "amqproxy_connections_refused_total": len(REFUSALS),
        "amqproxy_unread_connections_total": len(OPAQUE),
        "amqproxy_unread_bytes_total": len(Peer),
        "amqproxy_logins_total": len(LOGIN_SOURCES) * len(LOGIN_OUTCOMES),
        "amqproxy_pump_returns_total": len(PUMP_RETURNS),
        "amqproxy_upstream_failures_total": len(UPSTREAM_FAILURES),
        "amqproxy_copies_dropped_total": len(DropReason),
        "amqproxy_frames_total": len(Peer) * (KINDS + AMQP010_KINDS),
        "amqproxy_frame_bytes_total": len(Peer) * (KINDS + AMQP010_KINDS),
        "amqproxy_relay_seconds": len(LATENCY_BUCKETS) + 3,  # +Inf, the sum and the count
        "amqproxy_upstream_connect_seconds": len(CONNECT_BUCKETS) + 3,
        "amqproxy_publish_confirm_seconds": len(SECONDS) + 3,
        "amqproxy_delivery_ack_seconds": len(SECONDS) + 3,
        "amqproxy_request_seconds": len(REPLIES) * (len(SECONDS) + 3),
        "amqproxy_published_bytes": len(BYTES) + 3,
        "amqproxy_delivered_bytes": len(BYTES) + 3,
    }
    described = {entry.name: int(entry.series) for entry in ENTRIES if entry.series.isdecimal() and entry.series != "1"}
    assert described == expected | {
        "amqproxy_records_dropped_total": 4,
        "amqproxy_dtx_branches": 2,
        "amqproxy_shovels": 3,
    }


def test_a_unit_is_in_the_name() -> None:
    for entry in ENTRIES:
        assert ("_seconds" in entry.name) == entry.unit.startswith("seconds")
        assert ("_bytes" in entry.name) == (entry.unit == "bytes")
