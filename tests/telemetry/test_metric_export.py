"""Metrics of messages as a collector gets them, and exporters that fail and hang."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from structlog.testing import capture_logs

from amqproxy.configuration.config import OpenTelemetryConfig
from amqproxy.taps.metering.message_counts import SECONDS, Count, MessageCounts
from amqproxy.telemetry.message_metrics import MessageMetrics
from amqproxy.telemetry.metric_export import MetricExport, metrics_endpoint, otlp_metric_exporter
from amqproxy.telemetry.span_export import resource
from amqproxy.telemetry.span_tap import server_attributes
from tests.real.collector import CollectedPoint, Collector
from tests.real.poll import until


class Exporter(MetricExporter):
    """Fails once for each of `failures`; waits with each export while `hangs` is set."""

    def __init__(self, *failures: Exception | str) -> None:
        super().__init__()
        self.failures = list(failures)
        self.exports = 0
        self.goes_on = threading.Event()
        self.goes_on.set()

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: Any) -> MetricExportResult:
        self.exports += 1
        self.goes_on.wait(60)
        if not self.failures:
            return MetricExportResult.SUCCESS
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter").error(failure)
        return MetricExportResult.FAILURE

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        """Nothing to end."""


def counts() -> MessageCounts:
    counts = MessageCounts()
    counts.values[Count.PUBLISHED] = 5
    counts.values[Count.DELIVERED] = 3
    counts.confirm_seconds.observe(0.004, 2)
    counts.ack_seconds.observe(120.0)
    counts.observe_request("basic.get", 0.001)
    counts.observe_request("queue.declare", 0.001)
    return counts


def exporting(exporter: MetricExporter, interval: float = 3600.0) -> MetricExport:
    metrics = MessageMetrics(counts(), server_attributes("rabbit:5672", has_peer=False), 1)
    return MetricExport(metrics, exporter, resource(OpenTelemetryConfig()), interval)


def collected(interval: float = 3600.0) -> list[CollectedPoint]:
    with Collector() as collector:
        endpoint = metrics_endpoint(OpenTelemetryConfig(endpoint=collector.url))
        assert endpoint is not None
        export = exporting(otlp_metric_exporter(endpoint), interval)
        export.start()
        if interval < 1:
            until(lambda: collector.points, "the metrics")
        export.stop(30)
        return collector.points


def test_the_names_and_attributes_are_those_of_the_conventions() -> None:
    points = {(point.name, point.attributes["messaging.operation.name"]): point for point in collected()}
    assert {key: (point.value, point.unit) for key, point in points.items()} == {
        ("messaging.client.sent.messages", "publish"): (5, "{message}"),
        ("messaging.client.consumed.messages", "deliver"): (3, "{message}"),
        ("messaging.client.operation.duration", "publish"): (2, "s"),
        ("messaging.client.operation.duration", "get"): (1, "s"),
        ("messaging.process.duration", "deliver"): (1, "s"),
    }
    confirm = points["messaging.client.operation.duration", "publish"]
    assert (confirm.sum, confirm.bounds) == (pytest.approx(0.008), list(SECONDS))
    assert confirm.attributes == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "server.address": "rabbit",
        "server.port": 5672,
    }
    assert confirm.resource["service.name"] == "amqproxy"
    assert all(point.nanoseconds > 0 for point in points.values())


def test_they_are_exported_at_intervals() -> None:
    assert len(collected(0.01)) == 5


def test_of_failures_the_first_is_logged_and_the_first_success(caplog: pytest.LogCaptureFixture) -> None:
    exporter = Exporter("code: 500", ValueError("oh no"))
    with capture_logs() as log, caplog.at_level(logging.DEBUG):
        export = exporting(exporter, 0.01)
        export.start()
        until(lambda: exporter.exports > 3, "the export to succeed")
        export.stop(30)
    assert log == [
        {"event": "metrics not exported", "reason": "code: 500", "log_level": "warning"},
        {"event": "metrics exported again", "log_level": "info"},
    ]
    assert caplog.records == []


def test_the_end_does_not_wait_for_a_collector_that_hangs() -> None:
    exporter = Exporter()
    exporter.goes_on.clear()
    export = exporting(exporter)
    export.start()
    with capture_logs() as log:
        export.stop(0.01)
    exporter.goes_on.set()
    assert [each["event"] for each in log] == ["metrics not exported"]


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
        ("http://localhost:4318/", "http://localhost:4318/v1/metrics"),
        ("https://otlp.example/otlp/v1/traces", "https://otlp.example/otlp/v1/metrics"),
        ("https://otlp.example/spans?key=1", None),
    ],
)
def test_metrics_go_beside_the_spans(endpoint: str, expected: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics_endpoint(OpenTelemetryConfig(endpoint=endpoint)) == expected
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://other/v1/metrics")
    assert metrics_endpoint(OpenTelemetryConfig(endpoint=endpoint)) == "http://other/v1/metrics"
