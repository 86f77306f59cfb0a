"""Exporters that fail, hang, or keep what they are given."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


class FailingExporter(SpanExporter):
    """Says why it fails, as the one for OTLP does, once for each of `failures`; after that, it succeeds."""

    def __init__(self, *failures: Exception | str) -> None:
        self.failures = list(failures)
        self.exported = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if not self.failures:
            self.exported += len(spans)
            return SpanExportResult.SUCCESS
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        logging.getLogger(trace_exporter.__name__).error(failure)
        return SpanExportResult.FAILURE


class HangingExporter(SpanExporter):
    """Waits with its first batch until it is shut down."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.is_shut_down = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.is_asked.set()
        self.is_shut_down.wait(60)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.is_shut_down.set()
