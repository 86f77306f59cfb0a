"""OpenTelemetry for one proxy: the tap that makes spans, and the threads that export them and the metrics."""

from __future__ import annotations

import random
import time

import trio
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from amqproxy.configuration.config import Limits, OpenTelemetryConfig
from amqproxy.process.supervision import contained
from amqproxy.taps.metrics import Metrics
from amqproxy.telemetry.message_metrics import MessageMetrics
from amqproxy.telemetry.metric_export import MetricExport, metrics_endpoint, otlp_metric_exporter
from amqproxy.telemetry.sampler import Sampler
from amqproxy.telemetry.span_budget import SpanBudget
from amqproxy.telemetry.span_export import SpanExport, otlp_exporter, resource
from amqproxy.telemetry.span_queue import SpanQueue
from amqproxy.telemetry.span_tap import SpanTap, server_attributes

READER = "opentelemetry"
"""Name under which dropped spans are counted."""

RELIEF_INTERVAL = 1.0
"""Seconds between two checks of the traces' memory."""

FLUSH_TIMEOUT = 3.0
"""Limit in seconds on the export of the last spans."""


class Telemetry:
    """Export of the spans of the sessions shown to its `tap`, and of the metrics of messages.

    By OTLP, unless there is another `exporter` or `metric_exporter`.
    """

    def __init__(
        self,
        config: OpenTelemetryConfig,
        limits: Limits,
        metrics: Metrics,
        *,
        upstream: str,
        exporter: SpanExporter | None = None,
        metric_exporter: MetricExporter | None = None,
    ) -> None:
        dropped = metrics.records_dropped.labels(READER)
        budget = SpanBudget(limits.opentelemetry_spans, limits.opentelemetry_memory)
        queue = SpanQueue(budget)
        chance = random.Random()  # separate from the random numbers of rules, which may be seeded
        self._memory = limits.opentelemetry_memory
        self._export = SpanExport(queue, exporter or otlp_exporter(config), resource(config), dropped.inc)
        self.tap = SpanTap(queue, Sampler(config.sample, chance.random), budget, dropped.inc, upstream=upstream)
        self._metric_export: MetricExport | None = None
        endpoint = metrics_endpoint(config)
        if config.metrics and metrics.messages is not None and (endpoint or metric_exporter):
            self._metric_export = MetricExport(
                MessageMetrics(metrics.messages, server_attributes(upstream, has_peer=False), time.time_ns()),
                metric_exporter or otlp_metric_exporter(endpoint or ""),
                resource(config),
                config.metrics_interval,
            )

    def start(self) -> None:
        """Start exporting, until `finish`."""
        self._export.start()
        if self._metric_export:
            self._metric_export.start()

    async def run(self) -> None:
        """Keep the memory of the traces within its limit, until cancelled."""
        while True:
            await trio.sleep(RELIEF_INTERVAL)
            with contained("traces not relieved"):
                for _ in self.tap.relieve(self._memory):
                    await trio.lowlevel.checkpoint()

    async def finish(self) -> None:
        """Export the waiting spans and the last metrics, each within `FLUSH_TIMEOUT`."""
        async with trio.open_nursery() as nursery:
            for each in (self._export, self._metric_export):
                if each:
                    nursery.start_soon(_stopped, each)


async def _stopped(export: SpanExport | MetricExport) -> None:
    await trio.to_thread.run_sync(export.stop, FLUSH_TIMEOUT, abandon_on_cancel=True)
