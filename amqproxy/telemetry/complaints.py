"""Log messages of OpenTelemetry's SDK and its exporters: there would be one for each bad batch or span."""

from __future__ import annotations

import logging
import threading

from opentelemetry.exporter.otlp.proto.http import metric_exporter, trace_exporter

LONGEST_REASON = 500
"""Limit in characters on the reason why a batch was not exported."""

LOGGERS = (
    metric_exporter.__name__,
    trace_exporter.__name__,
    "opentelemetry.attributes",
    "opentelemetry.exporter.otlp.proto.common._internal",
    "opentelemetry.sdk.trace",
    "opentelemetry.trace.span",
)
"""Loggers of the SDK and of its exporters."""


class Complaints(logging.Filter):
    """Filter that keeps the SDK's messages in our thread out of the log: `text` has them."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._thread: threading.Thread | None = None

    def hush(self, thread: threading.Thread) -> None:
        """Keep the SDK's messages in this thread out of the log."""
        self._thread = thread
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self)

    def end(self) -> None:
        """Stop filtering the SDK's log messages."""
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if self._thread is None or record.thread != self._thread.ident:
            return True
        self.texts.append(record.getMessage())
        return False

    @property
    def text(self) -> str:
        """The first and the last message, shortened to `LONGEST_REASON`."""
        return "; ".join(dict.fromkeys((*self.texts[:1], *self.texts[-1:])))[:LONGEST_REASON]
