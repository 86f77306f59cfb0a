"""Export of spans in a thread, with OpenTelemetry's SDK, whose tracer and exporter may take any amount of time.

The SDK's BatchSpanProcessor would drop spans without counting them, and let a hanging collector delay our shutdown.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry import context as contexts
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.resources import SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

from amqproxy import __version__
from amqproxy.configuration.config import OpenTelemetryConfig
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, describe, report
from amqproxy.sockets.tls import verifying_alike
from amqproxy.telemetry.complaints import Complaints
from amqproxy.telemetry.message_span import DELIVER, MessageSpan
from amqproxy.telemetry.span_queue import SpanQueue
from amqproxy.telemetry.trace_context import TraceContext

EXPORT_INTERVAL = 1.0
"""Longest time in seconds that a span waits for its batch to fill."""

EXPORT_SHARE = 0.5
"""Share of one processor's time that the thread may use; spans beyond it are dropped, and counted."""

TRACES_PATH = "/v1/traces"
"""Path that OTLP over HTTP adds to an endpoint without one."""

SCOPE = "amqproxy"

SCHEMA = "https://opentelemetry.io/schemas/1.30.0"


def otlp_exporter(config: OpenTelemetryConfig) -> SpanExporter:
    """Return an exporter to the configured endpoint, by OTLP over HTTP, in protobuf."""
    endpoint = config.endpoint
    if urlsplit(endpoint).path in ("", "/"):
        endpoint = endpoint.rstrip("/") + TRACES_PATH
    return trace_exporter.OTLPSpanExporter(endpoint=endpoint, session=otlp_session())


def otlp_session() -> requests.Session:
    """Return the HTTP client of an exporter."""
    session = requests.Session()
    session.mount("https://", _VerifyingAdapter())
    return session


class _VerifyingAdapter(HTTPAdapter):
    """HTTPS whose certificates are verified alike on every version of Python, as those of brokers are."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, ssl_context=verifying_alike(create_urllib3_context()), **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=verifying_alike(create_urllib3_context()), **options)


def resource(config: OpenTelemetryConfig) -> Resource:
    """Return the resource of all spans: OTEL_RESOURCE_ATTRIBUTES, overridden by the configuration."""
    attributes = {SERVICE_VERSION: __version__, **config.resource_attributes}
    return Resource.create({**attributes, "service.name": config.service_name})


class SpanExport:
    """Thread that takes spans from `queue` and gives them to `exporter`.

    Spans that are not exported are dropped: `count_dropped` is called with their number. In a series of failing
    exports, the first is logged, and the first success after it.
    """

    def __init__(
        self, queue: SpanQueue, exporter: SpanExporter, resource: Resource, count_dropped: Callable[[int], None]
    ) -> None:
        self._queue = queue
        self._exporter = exporter
        self._count_dropped = count_dropped
        self._lost = 0
        self._has_unmade = False
        self._is_abandoned = False
        self._complaints = Complaints()
        self._collected = _Collected()
        ids = _Ids(random.Random())  # separate from the random numbers of rules, which may be seeded
        provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=ids)
        provider.add_span_processor(self._collected)
        self._tracer = provider.get_tracer(SCOPE, __version__, SCHEMA)
        # A daemon, since it must not delay the exit of the program, whatever the exporter waits for.
        self._thread = threading.Thread(target=self._run, name="amqproxy-opentelemetry", daemon=True)

    def start(self) -> None:
        """Start the exporting thread."""
        self._complaints.hush(self._thread)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Export the waiting spans, and drop the rest after `timeout` seconds. Blocks until then."""
        self._queue.close()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._is_abandoned = True
            lost = self._queue.clear()
            self._count_dropped(lost)
            logger().warning("spans not exported", count=lost, reason=f"not within {timeout:g} s at the end")
            # Last, since it lets the thread go on, which reports the failure of its own batch.
            with contained("exporter not closed"):
                self._exporter.shutdown()
        self._complaints.end()

    def _run(self) -> None:
        while not self._is_abandoned:
            batch = self._queue.take()
            if batch:
                began = time.thread_time()
                self._export(batch)
                self._queue.give_back(batch)
                self._rest(time.thread_time() - began)
            elif self._queue.is_closed:
                break
            else:
                self._queue.wait(EXPORT_INTERVAL)
        if not self._is_abandoned:
            with contained("exporter not closed"):
                self._exporter.shutdown()

    def _rest(self, seconds: float) -> None:
        """Sleep after `seconds` of CPU time, to leave the interpreter to the proxy."""
        if not self._queue.is_closed:
            time.sleep(seconds * (1 / EXPORT_SHARE - 1))

    def _export(self, batch: list[MessageSpan]) -> None:
        """Export spans; those that cannot be exported are dropped, and nothing is raised."""
        for each in batch:
            try:
                self._make(each)
            except Exception as failure:  # noqa: BLE001 - the failure of one span must not affect others
                self._note_unmade(failure)
        spans = self._collected.taken()
        self._complaints.texts.clear()
        reason = ""
        try:
            is_exported = not spans or self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception as failure:  # noqa: BLE001 - whatever an exporter raises costs this batch only
            is_exported, reason = False, describe(failure)
        self._note(is_exported, reason or self._complaints.text, len(spans))

    def _note_unmade(self, failure: Exception) -> None:
        """Count a span that the SDK has refused, and log the first one."""
        self._count_dropped(1)
        if not self._has_unmade:
            self._has_unmade = True
            report("span not made", failure)

    def _note(self, is_exported: bool, reason: str, count: int) -> None:
        if not is_exported:
            if not self._lost:
                logger().warning("spans not exported", reason=reason or "the exporter has failed")
            self._lost += count
            self._count_dropped(count)
        elif self._lost:
            logger().info("spans exported again", lost=self._lost)
            self._lost = 0

    def _make(self, span: MessageSpan) -> None:
        """Make the SDK's span, which `_collected` then holds."""
        made = self._tracer.start_span(
            span.name,
            context=_parent(span.context),
            kind=SpanKind.CONSUMER if span.operation is DELIVER else SpanKind.CLIENT,
            attributes=span.attributes(),
            start_time=span.start_ns,
        )
        if span.failure is not None:
            made.set_status(Status(StatusCode.ERROR, span.failure.description))
        made.end(end_time=span.end_ns)


def _parent(context: TraceContext | None) -> contexts.Context:
    """Return the parent context of a span: the message's, or none."""
    if context is None:
        return contexts.Context()
    parent = SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=TraceState.from_header([context.tracestate]) if context.tracestate else None,
    )
    return set_span_in_context(NonRecordingSpan(parent), contexts.Context())


class _Ids(IdGenerator):
    """Generator of trace and span ids, never 0."""

    def __init__(self, random: random.Random) -> None:
        self._random = random

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128) or 1


class _Collected(SpanProcessor):
    """Collector of the SDK's ended spans."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def taken(self) -> list[ReadableSpan]:
        spans, self._spans = self._spans, []
        return spans
