"""Spans of real messages, exported by OTLP over loopback: a publisher and a consumer through one proxy."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.real.collector import CollectedSpan, Collector
from tests.real.own import OwnBroker
from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy

pytestmark = [pytest.mark.real, pytest.mark.once]

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=x", "authorization": "Bearer secret"}
TRACED = pika.BasicProperties(message_id="m-1", correlation_id="c-1", headers=HEADERS)

StartTraced = Callable[..., Proxy]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture
def start_traced(start_proxy: StartProxy, own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch) -> StartTraced:
    """Starts a proxy that exports to a URL; further keys of [opentelemetry], and `rules`, may be given."""
    # The exporter names the cause when it tries again, after about a second: there must be time for that.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def start(url: str, rules: list[dict[str, Any]] | None = None, **keys: Any) -> Proxy:
        config: dict[str, Any] = {"opentelemetry": {"endpoint": url, **keys}, "metrics": {"address": "127.0.0.1:0"}}
        return start_proxy(own_broker.port, **config, rules=rules or [])

    return start


def publish(channel: BlockingChannel, properties: pika.BasicProperties | None = None, **options: Any) -> None:
    channel.basic_publish("", "orders", b"hello", properties, **options)


def confirming(connection: pika.BlockingConnection) -> BlockingChannel:
    """A channel with confirms and an empty queue."""
    channel = connection.channel()
    channel.queue_declare("orders", auto_delete=True)
    channel.queue_purge("orders")
    channel.confirm_delivery()
    return channel


def collected(collector: Collector, count: int) -> list[CollectedSpan]:
    until(lambda: len(collector.spans) >= count, f"{count} spans to be exported")
    return sorted(collector.spans, key=lambda span: span.name)


def dropped(proxy: Proxy) -> float:
    """How many spans the proxy says that it has dropped."""
    port = proxy.log.partition("path=/metrics")[0].rpartition("address=127.0.0.1:")[2].strip()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return float(text.partition('amqproxy_records_dropped_total{tap="opentelemetry"}')[2].split()[0])


def test_publish_and_delivery_belong_to_the_trace_of_the_message(
    start_traced: StartTraced, collector: Collector, own_broker: OwnBroker
) -> None:
    proxy = start_traced(collector.url, resource_attributes={"deployment.environment.name": "test"})
    with connected(proxy, client_properties={"connection_name": "shop"}) as connection:
        channel = confirming(connection)
        publish(channel, TRACED)
        method, properties, body = next(channel.consume("orders"))
        assert (properties.headers, body) == (HEADERS, b"hello")  # the message is as it was
        channel.basic_ack(method.delivery_tag)
    deliver, published = collected(collector, 2)
    for span in (deliver, published):
        assert (span.trace_id, span.parent_id, span.trace_state) == (TRACE, SPAN, "vendor=x")
        assert span.resource["service.name"] == "amqproxy"
        assert span.resource["deployment.environment.name"] == "test"
        assert not span.is_error
        assert span.nanoseconds > 0
        common = {
            "messaging.system": "rabbitmq",
            "messaging.destination.name": "orders",
            "messaging.rabbitmq.destination.routing_key": "orders",
            "messaging.rabbitmq.message.delivery_tag": 1,
            "messaging.message.id": "m-1",
            "messaging.message.conversation_id": "c-1",
            "messaging.message.body.size": 5,
            "messaging.client.id": "shop",
            "server.address": "127.0.0.1",
            "server.port": own_broker.port,
            "amqproxy.virtual_host": "/",
        }
        assert common.items() <= span.attributes.items()
        assert "secret" not in str(vars(span))
    assert (published.name, published.kind) == ("publish amq.default", "CLIENT")
    assert published.attributes["amqproxy.outcome"] == "confirmed"
    assert (deliver.name, deliver.kind) == ("deliver orders", "CONSUMER")
    assert deliver.attributes["amqproxy.outcome"] == "acked"


def test_what_went_wrong_is_an_error(start_traced: StartTraced, collector: Collector) -> None:
    proxy = start_traced(collector.url)
    with connected(proxy) as connection:
        channel = confirming(connection)
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nowhere", b"x", mandatory=True)
        publish(channel)
        method, _, _ = next(channel.consume("orders"))
        channel.basic_reject(method.delivery_tag, requeue=True)
        method, _, _ = next(channel.consume("orders"))
        assert method.redelivered
    spans = {(span.name, span.attributes["amqproxy.outcome"]): span for span in collected(collector, 4)}
    assert spans["publish amq.default", "returned"].description == "returned: 312 NO_ROUTE"
    assert not spans["publish amq.default", "confirmed"].is_error
    assert spans["deliver orders", "rejected"].description == "rejected by the consumer"
    assert spans["deliver orders", "open"].attributes["amqproxy.redelivered"] is True
    assert spans["deliver orders", "open"].is_error
    assert len({span.trace_id for span in spans.values()}) == 4
    assert {span.parent_id for span in spans.values()} == {""}


def test_what_is_not_sampled_is_not_exported(start_traced: StartTraced, collector: Collector) -> None:
    proxy = start_traced(collector.url)
    with connected(proxy) as connection:
        channel = confirming(connection)
        for flags in ("00", "01"):
            publish(channel, pika.BasicProperties(headers={"traceparent": f"00-{TRACE}-{SPAN}-{flags}"}))
    proxy.terminate()
    assert proxy.wait() == 0
    assert [span.attributes["amqproxy.outcome"] for span in collector.spans] == ["confirmed"]


def test_what_rules_redact_is_not_exported(start_traced: StartTraced, collector: Collector) -> None:
    redact = {
        "name": "ids",
        "action": "redact",
        "match": {"method": ["basic.publish", "basic.deliver"]},
        "properties": ["message_id"],
        "fields": ["routing_key"],
        "headers": ["tracestate"],
    }
    proxy = start_traced(collector.url, rules=[redact])
    with connected(proxy) as connection:
        channel = confirming(connection)
        publish(channel, TRACED)
        method, properties, _ = next(channel.consume("orders"))
        assert (properties.message_id, method.routing_key) == ("m-1", "orders")
        channel.basic_ack(method.delivery_tag)
    for span in collected(collector, 2):
        assert span.trace_id == TRACE
        found = str(span.attributes) + span.trace_state
        assert "m-1" not in found
        assert "vendor" not in found
        assert span.attributes["messaging.rabbitmq.destination.routing_key"] != "orders"


def test_a_drain_exports_what_is_left(start_traced: StartTraced, collector: Collector) -> None:
    proxy = start_traced(collector.url)
    with connected(proxy) as connection:
        channel = confirming(connection)
        for _ in range(1000):
            publish(channel)
    proxy.terminate()
    assert proxy.wait() == 0
    assert len(collector.spans) == 1000
    assert "spans not exported" not in proxy.log


def test_a_collector_that_fails_is_logged_once_and_hurts_nobody(
    start_traced: StartTraced, collector: Collector
) -> None:
    collector.status = 500
    proxy = start_traced(collector.url)
    with connected(proxy) as connection:
        channel = confirming(connection)
        for requests in (1, 2, 3):
            publish(channel)
            until(partial(lambda least: collector.requests >= least, requests), "a batch to be exported")
        until(lambda: dropped(proxy) >= 3, "the spans to be counted")
        collector.status = 200
        publish(channel)
        collected(collector, 1)
    until(lambda: "spans exported again" in proxy.log, "the log")
    assert proxy.log.count("spans not exported") == 1
    assert "500" in proxy.log.partition("spans not exported")[2].partition("\n")[0]
    assert "lost=3" in proxy.log
    assert "Traceback" not in proxy.log


def test_nobody_listens_where_the_collector_should_be(start_traced: StartTraced) -> None:
    with Collector() as gone:
        url = gone.url
    proxy = start_traced(url)
    with connected(proxy) as connection:
        channel = confirming(connection)
        publish(channel)
        until(lambda: "spans not exported" in proxy.log, "the log")
        publish(channel)
    proxy.terminate()
    assert proxy.wait() == 0
    assert "refused" in proxy.log.partition("spans not exported")[2].partition("\n")[0]
    assert "Traceback" not in proxy.log


def test_a_collector_that_hangs_hurts_nobody(
    start_traced: StartTraced, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    collector.hang()
    proxy = start_traced(collector.url)
    with connected(proxy) as one, connected(proxy) as other:
        busy, calm = confirming(one), confirming(other)
        publish(busy)
        until(lambda: collector.requests, "the first batch to hang")
        for _ in range(20):
            busy_channel = one.channel()
            for _ in range(600):
                publish(busy_channel)  # without confirms: each has a span at once
            busy_channel.close()
            publish(calm)
        assert dropped(proxy) > 0
        publish(calm)
    proxy.terminate()
    assert proxy.wait() == 0
    assert "not within 3 s at the end" in proxy.log


def test_metrics_count_every_message_and_need_no_spans(
    start_traced: StartTraced, collector: Collector, own_broker: OwnBroker
) -> None:
    proxy = start_traced(collector.url, sample=0, metrics_interval=0.1)
    with connected(proxy) as connection:
        channel = confirming(connection)
        for _ in range(3):
            publish(channel)
        (method, _, _) = channel.basic_get("orders")
        channel.basic_ack(method.delivery_tag)
        channel.queue_purge("orders")

        def values() -> dict[tuple[str, str], int]:
            return {(each.name, each.attributes["messaging.operation.name"]): each.value for each in collector.points}

        expected = {
            ("messaging.client.sent.messages", "publish"): 3,
            ("messaging.client.consumed.messages", "deliver"): 1,
            ("messaging.client.operation.duration", "publish"): 3,
            ("messaging.client.operation.duration", "get"): 1,
            ("messaging.process.duration", "deliver"): 1,
        }
        until(lambda: values() == expected, "the metrics of all messages")
    assert collector.points[0].attributes["server.port"] == own_broker.port
    assert collector.points[0].resource["service.name"] == "amqproxy"
    assert collector.spans == []
