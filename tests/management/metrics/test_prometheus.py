"""The metrics of `amqproxy broker` with a client, beside those of RabbitMQ's plugin, and in a real Prometheus."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.management.api import Api
from tests.management.metrics.exposed import Exposed, exposed, rabbitmqs
from tests.management.own_api import own
from tests.monitoring.prometheus import INTERVAL, PrometheusServer
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.require import require

pytestmark = [pytest.mark.real, pytest.mark.once]

FAMILIES = (
    *("queue_coarse_metrics", "queue_metrics", "queue_consumer_count", "queue_delivery_metrics"),
    *("channel_metrics", "channel_exchange_metrics", "channel_queue_metrics", "channel_queue_exchange_metrics"),
    *("connection_coarse_metrics", "connection_metrics", "exchange_metrics", "vhost_status", "exchange_names"),
    *("connection_churn_metrics", "node_coarse_metrics", "node_metrics", "auth_attempt_metrics"),
)

UNCOUNTED_LABELS = {
    "rabbitmq_global_messages_": {"protocol", "queue_type"},
    "rabbitmq_channel_messages_": {"exchange", "queue"},
    "rabbitmq_channel_get_": {"queue"},
    "rabbitmq_queue_messages_published_total": {"channel", "exchange", "exchange_vhost"},
}
"""Labels that RabbitMQ has, and that are not told apart here, by beginning of names."""

GAUGES = (
    *("rabbitmq_queue_messages_ready", "rabbitmq_queue_messages_unacked", "rabbitmq_queues", "rabbitmq_channels"),
    *("rabbitmq_connections", "rabbitmq_consumers", "rabbitmq_global_publishers"),
    *("rabbitmq_process_resident_memory_bytes", "rabbitmq_resident_memory_limit_bytes"),
    *("rabbitmq_disk_space_available_bytes", "rabbitmq_disk_space_available_limit_bytes"),
    *("rabbitmq_process_open_fds", "rabbitmq_process_max_fds", "rabbitmq_build_info"),
)

COUNTERS = (
    *(
        f"rabbitmq_global_messages_{each}_total"
        for each in (
            *("received", "confirmed", "routed", "unroutable_dropped", "unroutable_returned", "delivered"),
            *("redelivered", "delivered_consume_auto_ack", "delivered_consume_manual_ack"),
            *("delivered_get_auto_ack", "delivered_get_manual_ack", "acknowledged", "get_empty"),
        )
    ),
    *("rabbitmq_queues_declared_total", "rabbitmq_queues_created_total", "rabbitmq_queues_deleted_total"),
    *("rabbitmq_channels_opened_total", "rabbitmq_channels_closed_total"),
    *("rabbitmq_connections_opened_total", "rabbitmq_connections_closed_total"),
)
"""What RabbitMQ's overview dashboard, 10991 at grafana.com, asks for."""

JOIN = 'on(instance) group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info{rabbitmq_cluster="tested"}'
"""The part of each of its queries that chooses a cluster."""


@pytest.fixture(scope="module", params=["3.10", "4.3"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, str]]:
    """An API of a broker with one client, and the RabbitMQ version."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("AMQPROXY_BROKER__MANAGEMENT__METRICS_WITHOUT_LOGIN", "true")
        with own(tmp_path_factory.mktemp("ours"), request.param, monkeypatch) as api:
            connection = api.connected()
            yield api, request.param
            connection.close()


def text(api: Api, path: str) -> str:
    answer = api.ask("GET", path, user=None)
    assert answer.status == 200
    return answer.body.decode()


def _known(minor: str, endpoint: str) -> dict[str, Exposed]:
    """RabbitMQ's metrics of an endpoint; in the recording, one that has no others per object is listed once."""
    found = rabbitmqs(minor, "/metrics")
    if endpoint != "/metrics":
        found |= rabbitmqs(minor, "/metrics/per-object") | rabbitmqs(minor, "/metrics/detailed")
    return found


@pytest.mark.parametrize("endpoint", ["/metrics", "/metrics/per-object", "/metrics/detailed"])
def test_names_types_labels_and_helps_are_rabbitmqs(broker: tuple[Api, str], endpoint: str) -> None:
    api, minor = broker
    query = "?family=" + "&family=".join(FAMILIES) if endpoint.endswith("detailed") else ""
    ours = exposed(text(api, endpoint + query))
    theirs, newest = _known(minor, endpoint), _known("4.3", endpoint)
    assert len(ours) > 40
    for name, metric in ours.items():
        known = name.replace("rabbitmq_detailed_", "rabbitmq_")
        expected = theirs[known]
        assert metric.type == expected.type, name
        # Help texts are those of the newest RabbitMQ, which has other words for a few.
        assert metric.help == newest.get(known, expected).help, name
        uncounted = {label for start, labels in UNCOUNTED_LABELS.items() if known.startswith(start) for label in labels}
        assert metric.labels <= expected.labels, name
        assert expected.labels - metric.labels <= uncounted, name


@pytest.mark.parametrize("endpoint", ["/metrics", "/metrics/per-object"])
def test_promtool_can_read_them(broker: tuple[Api, str], endpoint: str) -> None:
    """promtool prints remarks about RabbitMQ's names, and fails with 1 where it cannot read."""
    api, _ = broker
    checked = subprocess.run(
        [require("promtool"), "check", "metrics"],
        input=text(api, endpoint),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "error" not in checked.stderr, checked.stderr
    assert checked.returncode in (0, 3), checked.stderr


def test_the_overview_dashboard_has_data(broker: tuple[Api, str], tmp_path: Path) -> None:
    api, minor = broker
    config = {
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL},
        "scrape_configs": [{"job_name": "rabbitmq", "static_configs": [{"targets": [f"127.0.0.1:{api.port}"]}]}],
    }
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    options = (f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'tsdb'}")
    prometheus = PrometheusServer(tmp_path, free_port(), *options)
    try:
        until(lambda: prometheus.query(f"rate({COUNTERS[0]}[60s]) * {JOIN}"), "two scrapes")
        sockets = ("rabbitmq_process_open_tcp_sockets",) if minor == "3.10" else ()
        for expression in (*(*GAUGES, *sockets), *(f"rate({name}[60s])" for name in COUNTERS)):
            found = prometheus.query(f"sum({expression} * {JOIN}) by(rabbitmq_node)")
            assert [each["metric"]["rabbitmq_node"] for each in found] == [api.get("overview")["node"]], expression
        assert prometheus.value("rabbitmq_global_messages_received_total") == 1
        assert prometheus.value('rabbitmq_global_publishers{protocol="amqp091"}') == 1
        assert prometheus.value("rabbitmq_consumers") == 1
    finally:
        prometheus.kill()
