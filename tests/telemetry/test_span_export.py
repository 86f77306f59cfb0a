"""The thread that exports spans, with the SDK's exporter in memory, and with exporters that fail and hang."""

from __future__ import annotations

import logging
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from structlog.testing import capture_logs

from amqproxy.configuration.config import OpenTelemetryConfig
from amqproxy.configuration.tls_config import ServerTLS
from amqproxy.sockets.tls import server_context
from amqproxy.telemetry import span_export
from amqproxy.telemetry.message_span import DELIVER, PUBLISH, MessageSpan, Operation, SpanFailure, cost_of, text
from amqproxy.telemetry.span_budget import SpanBudget
from amqproxy.telemetry.span_export import SpanExport, otlp_exporter, resource
from amqproxy.telemetry.span_queue import BATCH, SpanQueue
from amqproxy.telemetry.trace_context import TraceContext
from tests.example_count import example_count
from tests.real.collector import Collector
from tests.sockets.authority import Authority
from tests.telemetry.exporters import FailingExporter, HangingExporter
from tests.telemetry.spans import SPAN, TRACE


def span(operation: Operation = PUBLISH, **fields: Any) -> MessageSpan:
    known = {"connection": {}, "context": None, "channel": 1, "exchange": "e", "routing_key": "k"}
    return MessageSpan(operation=operation, **{**known, "start_ns": 1_000, "end_ns": 5_000, **fields})


class Exporting:
    """A queue, and the thread that empties it."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.budget = SpanBudget(100_000, 1 << 30)
        self.queue = SpanQueue(self.budget)
        self.dropped = 0
        self.export = SpanExport(self.queue, exporter, resource(OpenTelemetryConfig()), self._drop)

    def _drop(self, count: int) -> None:
        self.dropped += count

    def add(self, *spans: MessageSpan) -> None:
        for each in spans:
            each.cost = cost_of(each)
            assert self.budget.take(each.cost, 0, 0)
        self.queue.add(spans)


def exported(*spans: MessageSpan) -> list[Any]:
    """The spans as the SDK has them."""
    exporter = InMemorySpanExporter()
    exporting = Exporting(exporter)
    exporting.add(*spans)
    exporting.export.start()
    exporting.export.stop(30)
    assert (exporting.budget.spans, exporting.dropped) == (0, 0)
    return list(exporter.get_finished_spans())


def test_spans_of_a_trace_continue_it() -> None:
    context = TraceContext(TRACE, SPAN, is_sampled=True, tracestate="vendor=x")
    publish, deliver = exported(span(context=context), span(DELIVER, context=context, queue="work"))
    assert (publish.name, publish.kind) == ("publish e", SpanKind.CLIENT)
    assert (deliver.name, deliver.kind) == ("deliver work", SpanKind.CONSUMER)
    for each in (publish, deliver):
        assert each.context.trace_id == each.parent.trace_id == int(TRACE, 16)
        assert each.parent.span_id == int(SPAN, 16)
        assert each.parent.is_remote
        assert each.context.trace_state.get("vendor") == "x"
        assert (each.start_time, each.end_time) == (1_000, 5_000)
        assert each.status.status_code is StatusCode.UNSET
        assert each.resource.attributes["service.name"] == "amqproxy"
        assert each.instrumentation_scope.name == "amqproxy"
    assert publish.context.span_id != deliver.context.span_id


def test_a_message_without_a_trace_begins_one() -> None:
    one, other = exported(span(), span())
    assert one.parent is None
    assert other.parent is None
    assert one.context.trace_id != other.context.trace_id


def test_what_failed_has_the_status_error() -> None:
    (failed,) = exported(span(failure=SpanFailure("nacked by the broker", "nacked")))
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "nacked by the broker")
    assert failed.attributes["error.type"] == "nacked"


def test_all_of_very_many() -> None:
    assert len(exported(*[span(start_ns=number) for number in range(3 * BATCH + 1)])) == 3 * BATCH + 1


def test_the_chance_of_rules_is_left_alone() -> None:
    random.seed(1)
    expected = random.random()
    random.seed(1)
    exported(span(), span())
    assert random.random() == expected


def test_of_exports_that_fail_the_first_is_logged_and_the_first_that_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter = FailingExporter("code: 500, reason: oh no", "again", ValueError("encoding"))
    exporting = Exporting(exporter)
    exporting.add(*[span() for _ in range(3 * BATCH + 5)])
    with capture_logs() as log, caplog.at_level(logging.DEBUG):
        exporting.export.start()
        exporting.export.stop(30)
    assert log == [
        {"event": "spans not exported", "reason": "code: 500, reason: oh no", "log_level": "warning"},
        {"event": "spans exported again", "lost": 3 * BATCH, "log_level": "info"},
    ]
    assert caplog.records == []
    assert (exporting.dropped, exporter.exported, exporting.budget.spans) == (3 * BATCH, 5, 0)


def test_an_exception_is_the_reason() -> None:
    exporting = Exporting(FailingExporter(ValueError("no")))
    exporting.add(span())
    with capture_logs() as log:
        exporting.export.start()
        exporting.export.stop(30)
    assert log[0]["reason"].startswith("ValueError: no")


ANY_TEXT = st.binary(max_size=255).map(lambda octets: octets.decode("utf-8", "surrogateescape"))


@given(st.lists(ANY_TEXT, min_size=6, max_size=6), st.integers(0, 2**64 - 1))
@settings(max_examples=example_count(50), deadline=None)
def test_whatever_peers_send_can_be_encoded(texts: list[str], number: int) -> None:
    exchange, routing_key, queue, message_id, rule, description = texts
    made = span(
        DELIVER,
        exchange=exchange,
        routing_key=routing_key,
        queue=queue,
        message_id=message_id,
        rules=(rule,),
        delivery_tag=number,
        size=number,
        failure=SpanFailure(text(description), "404"),
    )
    request = encode_spans(exported(made))
    (encoded,) = request.resource_spans[0].scope_spans[0].spans
    assert len(encoded.attributes) == len(made.attributes())
    assert type(request).FromString(request.SerializeToString()) == request


def test_headers_that_are_no_tracestate_cost_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    states = ("=", "a", ",,,", "a=1,a=2", "\0", "x" * 512, ",".join(f"k{number}=1" for number in range(40)))
    contexts = [TraceContext(TRACE, SPAN, is_sampled=True, tracestate=state) for state in states]
    assert len(exported(*[span(context=context) for context in contexts])) == len(states)
    assert caplog.records == []


def test_a_span_that_cannot_be_made_costs_no_other() -> None:
    exporter = InMemorySpanExporter()
    exporting = Exporting(exporter)
    exporting.add(span(), span(connection=None), span(connection=None), span())
    with capture_logs() as log:
        exporting.export.start()
        exporting.export.stop(30)
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["span not made"]
    assert (len(exporter.get_finished_spans()), exporting.dropped, exporting.budget.spans) == (2, 2, 0)


def test_what_others_say_of_their_exports_is_logged_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    exporting = Exporting(FailingExporter())
    exporting.export.start()
    FailingExporter("of another").export([])
    exporting.export.stop(30)
    assert caplog.messages == ["of another"]


def test_an_exporter_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = HangingExporter()
    exporting = Exporting(exporter)
    exporting.add(*[span() for _ in range(BATCH + 5)])
    with capture_logs() as log:
        exporting.export.start()
        assert exporter.is_asked.wait(30)
        exporting.export.stop(0.0)
    assert exporter.is_shut_down.is_set()
    assert log[0] == {
        "event": "spans not exported", "count": 5, "reason": "not within 0 s at the end", "log_level": "warning"
    }  # fmt: skip
    for thread in threading.enumerate():
        if thread.name == "amqproxy-opentelemetry":
            thread.join(30)
    assert exporting.dropped == BATCH + 5


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/otlp/traces?key=1", "https://c/otlp/traces?key=1"),
    ],
)
def test_the_endpoint(endpoint: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, str] = {}
    monkeypatch.setattr(span_export.trace_exporter, "OTLPSpanExporter", lambda **options: found.update(options))
    otlp_exporter(OpenTelemetryConfig(endpoint=endpoint))
    assert found["endpoint"] == url


def test_the_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a,region=b")
    config = OpenTelemetryConfig(service_name="edge", resource_attributes={"region": "c"})
    attributes = resource(config).attributes
    assert (attributes["service.name"], attributes["team"], attributes["region"]) == ("edge", "a", "c")


@pytest.mark.parametrize("lacks", ["keyUsage", "authorityKeyIdentifier", ""])
@pytest.mark.parametrize("trusts", ["root", "middle", "nothing"])
def test_a_collector_is_verified_as_brokers_are(
    lacks: str, trusts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 made strict verification its default; private authorities often lack extensions."""
    authority = Authority(tmp_path, lacks)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which requests prefers
        monkeypatch.delenv(name, raising=False)
    if trusts != "nothing":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", getattr(authority, trusts))
    tls = server_context(ServerTLS(certificate=authority.leaf, key=authority.key))
    with Collector(tls) as collector:
        exporting = Exporting(otlp_exporter(OpenTelemetryConfig(endpoint=collector.url)))
        exporting.add(span())
        exporting.export.start()
        exporting.export.stop(10)
        assert len(collector.spans) == (trusts != "nothing")
        assert exporting.dropped == (trusts == "nothing")
