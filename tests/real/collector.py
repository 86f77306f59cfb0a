"""A collector for OTLP over HTTP on loopback, as small as one can be: it decodes what it is sent."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2


class CollectedSpan:
    """A span as it came over the wire."""

    def __init__(self, resource: dict[str, Any], span: trace_pb2.Span) -> None:
        self.resource = resource
        self.name = span.name
        self.kind = trace_pb2.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_")
        self.trace_id = span.trace_id.hex()
        self.span_id = span.span_id.hex()
        self.parent_id = span.parent_span_id.hex()
        self.trace_state = span.trace_state
        self.attributes = plain(span.attributes)
        self.is_error = span.status.code == trace_pb2.Status.STATUS_CODE_ERROR
        self.description = span.status.message
        self.nanoseconds = span.end_time_unix_nano - span.start_time_unix_nano


class CollectedPoint:
    """A value of a metric as it came over the wire: a number, or the counts of a histogram's buckets."""

    def __init__(self, resource: dict[str, Any], name: str, unit: str, point: Any) -> None:
        self.resource = resource
        self.name = name
        self.unit = unit
        self.attributes = plain(point.attributes)
        self.value = point.as_int if hasattr(point, "as_int") else point.count
        self.sum = getattr(point, "sum", None)
        self.bounds = list(getattr(point, "explicit_bounds", ()))
        self.nanoseconds = point.time_unix_nano - point.start_time_unix_nano


class Collector:
    """Listens on `url` for as long as the block runs. It answers with `status`, and with nothing while it `hangs`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.status = 200
        self.requests = 0
        self.spans: list[CollectedSpan] = []
        self.points: list[CollectedPoint] = []
        """The metrics of the last request for them."""
        self._goes_on = threading.Event()
        self._goes_on.set()

    def hang(self) -> None:
        self._goes_on.clear()

    def __enter__(self) -> Collector:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        scheme, host = "http", "127.0.0.1"
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
            scheme, host = "https", "localhost"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"{scheme}://{host}:{self._server.server_address[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._goes_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, content_type: str, body: bytes) -> int:
        """Take a request; the status to answer with."""
        assert content_type == "application/x-protobuf"
        if path == "/v1/metrics":
            if self.status == 200:
                self.points = points_of(body)
            return self.status
        assert path == "/v1/traces"
        self.requests += 1
        self._goes_on.wait()
        if self.status == 200:
            self.spans += spans_of(body)
        return self.status

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        take: Callable[[str, str, bytes], int] = self.take

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = take(self.path, self.headers["Content-Type"], body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                """Say nothing."""

        return Handler


def spans_of(body: bytes) -> list[CollectedSpan]:
    """The spans in the body of a request."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        CollectedSpan(plain(resource.resource.attributes), span)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def points_of(body: bytes) -> list[CollectedPoint]:
    """The values of all metrics in the body of a request."""
    return [
        CollectedPoint(plain(resource.resource.attributes), metric.name, metric.unit, point)
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in getattr(metric, metric.WhichOneof("data")).data_points
    ]


def plain(attributes: Any) -> dict[str, Any]:
    """Attributes as Python has them."""

    def value(found: AnyValue) -> Any:
        kind = found.WhichOneof("value")
        return [value(each) for each in found.array_value.values] if kind == "array_value" else getattr(found, kind)

    pairs: list[KeyValue] = list(attributes)
    return {pair.key: value(pair.value) for pair in pairs}
