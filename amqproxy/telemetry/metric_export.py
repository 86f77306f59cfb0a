"""Export of metrics at intervals, in a thread of its own: its exporter may take any amount of time."""

from __future__ import annotations

import os
import threading
import time
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http import metric_exporter
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from amqproxy import __version__
from amqproxy.configuration.config import OpenTelemetryConfig
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, describe
from amqproxy.telemetry.complaints import Complaints
from amqproxy.telemetry.message_metrics import SCHEMA, MessageMetrics
from amqproxy.telemetry.span_export import SCOPE, TRACES_PATH, otlp_session

METRICS_PATH = "/v1/metrics"
"""Path that OTLP over HTTP adds to an endpoint without one."""

_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


def metrics_endpoint(config: OpenTelemetryConfig) -> str | None:
    """Return the URL for metrics beside that for spans; `None` if that has another path, and no variable names one."""
    named = os.environ.get(_ENDPOINT)
    if named:
        return named
    url = config.endpoint.rstrip("/")
    if urlsplit(url).path == "":
        return url + METRICS_PATH
    return url.removesuffix(TRACES_PATH) + METRICS_PATH if url.endswith(TRACES_PATH) else None


def otlp_metric_exporter(endpoint: str) -> MetricExporter:
    """Return an exporter to an endpoint, by OTLP over HTTP, in protobuf."""
    return metric_exporter.OTLPMetricExporter(endpoint=endpoint, session=otlp_session())


class MetricExport:
    """Thread that gives `metrics` to `exporter` every `interval` seconds, and at the end.

    A failed export is logged if the one before succeeded; since metrics are cumulative, it loses nothing.
    """

    def __init__(
        self,
        metrics: MessageMetrics,
        exporter: MetricExporter,
        resource: Resource,
        interval: float,
    ) -> None:
        self._metrics = metrics
        self._exporter = exporter
        self._resource = resource
        self._interval = interval
        self._scope = InstrumentationScope(SCOPE, __version__, SCHEMA)
        self._is_over = threading.Event()
        self._has_failed = False
        self._complaints = Complaints()
        # A daemon, since it must not delay the exit of the program, whatever the exporter waits for.
        self._thread = threading.Thread(target=self._run, name="amqproxy-otlp-metrics", daemon=True)

    def start(self) -> None:
        """Start the exporting thread."""
        self._complaints.hush(self._thread)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Export for the last time, and give up after `timeout` seconds. Blocks until then."""
        self._is_over.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger().warning("metrics not exported", reason=f"not within {timeout:g} s at the end")
        self._complaints.end()

    def _run(self) -> None:
        while not self._is_over.wait(self._interval):
            self._export()
        self._export()
        with contained("exporter not closed"):
            self._exporter.shutdown()

    def _export(self) -> None:
        self._complaints.texts.clear()
        reason = ""
        try:
            scope = ScopeMetrics(self._scope, list(self._metrics.read(time.time_ns())), SCHEMA)
            data = MetricsData([ResourceMetrics(self._resource, [scope], SCHEMA)])
            is_exported = self._exporter.export(data) is MetricExportResult.SUCCESS
        except Exception as failure:  # noqa: BLE001 - whatever an exporter raises costs this export only
            is_exported, reason = False, describe(failure)
        if not is_exported and not self._has_failed:
            reason = reason or self._complaints.text or "the exporter has failed"
            logger().warning("metrics not exported", reason=reason)
        elif is_exported and self._has_failed:
            logger().info("metrics exported again")
        self._has_failed = not is_exported
