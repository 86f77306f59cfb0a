"""The metrics of a broker in this process: numbers, families, virtual hosts, access."""

from __future__ import annotations

import pytest

from amqproxy.management.metrics import per_object
from amqproxy.management.metrics.metric import SLICE, Metric
from amqproxy.management.route import Routes
from amqproxy.management.routes import ROUTES
from tests.management.local_api import LocalApi
from tests.management.metrics.exposed import exposed, values


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> LocalApi:
    """An API of a broker with two queues in one virtual host and one in another, and three messages."""
    found = LocalApi(monkeypatch)
    for path in ("vhosts/other", "queues/%2F/orders", 'queues/%2F/a%22%5C%0A"', "queues/other/orders"):
        assert found.ask("PUT", path, {}).status == 201
    for key in ("orders", "orders", "nowhere"):
        body: dict[str, object] = {
            "routing_key": key,
            "payload": "five5",
            "payload_encoding": "string",
            "properties": {},
        }
        assert found.ask("POST", "exchanges/%2F/amq.default/publish", body).status == 200
    body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert found.ask("POST", "queues/%2F/orders/get", body).status == 200
    return found


def shown(api: LocalApi, path: str) -> dict[tuple[str, ...], float]:
    answer = api.ask("GET", path)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4"
    return values(answer.body.decode())


def test_totals_are_of_the_whole_broker(api: LocalApi) -> None:
    found = shown(api, "/metrics")
    expected = {
        "queues": 3,
        "queue_messages_ready": 1,
        "queue_messages": 1,
        "queue_messages_ready_bytes": 5,
        "connections": 0,
        "global_messages_received_total": 3,
        "global_messages_routed_total": 2,
        "global_messages_unroutable_dropped_total": 1,
        "global_messages_delivered_total": 1,
        "global_messages_delivered_get_manual_ack_total": 1,
        "queues_created_total": 3,
        "alarms_memory_used_watermark": 0,
    }
    assert {name: found[f"rabbitmq_{name}",] for name in expected} == expected
    assert found["rabbitmq_global_consumers", "amqp091"] == 0


def test_counts_outlive_their_objects(api: LocalApi) -> None:
    before = shown(api, "/metrics")
    assert api.ask("DELETE", "queues/%2F/orders").status == 204
    assert api.ask("DELETE", "vhosts/%2F").status == 204
    after = shown(api, "/metrics")
    assert after["rabbitmq_queues",] == 1
    counters = [key for key in before if key[0].endswith("_total")]
    assert all(after[key] >= before[key] for key in counters)


def test_objects_are_shown_with_their_names(api: LocalApi) -> None:
    found = shown(api, "/metrics/per-object")
    assert found["rabbitmq_queue_messages_ready", "orders", "/"] == 1
    assert found["rabbitmq_queue_messages_ready", "orders", "other"] == 0
    assert found["rabbitmq_queue_messages_ready", 'a"\\\n"', "/"] == 0
    assert found["rabbitmq_queue_get_ack_total", "orders", "/"] == 1
    assert found["rabbitmq_exchange_messages_published_total", "", "/"] == 3
    assert found["rabbitmq_queues",] == 3
    assert ("rabbitmq_queue_messages_ready",) not in found


def test_details_are_of_the_chosen_families_and_virtual_hosts(api: LocalApi) -> None:
    path = "/metrics/detailed?family=queue_coarse_metrics&family=vhost_status&vhost=other&vhost=missing"
    found = shown(api, path)
    assert {name for name, *_ in found} == {
        "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_messages",
        "rabbitmq_detailed_queue_info",
        "rabbitmq_cluster_vhost_status",
        "rabbitmq_identity_info",
    }
    assert {key[1:] for key in found if key[0] == "rabbitmq_detailed_queue_messages"} == {("orders", "other")}


@pytest.mark.parametrize("query", ["", "?family=nonsense", "?family=queue_coarse_metrics&vhost=missing"])
def test_without_objects_the_broker_is_named(api: LocalApi, query: str) -> None:
    assert list(exposed(api.ask("GET", f"/metrics/detailed{query}").body.decode())) == ["rabbitmq_identity_info"]


def test_families_that_share_a_metric_show_it_once(api: LocalApi) -> None:
    text = api.ask("GET", "/metrics/detailed?family=queue_metrics&family=queue_consumer_count").body.decode()
    assert text.count("# TYPE rabbitmq_detailed_queue_consumers ") == 1
    assert text.count('rabbitmq_detailed_queue_consumers{queue="orders",vhost="/"}') == 1


def test_families_of_the_node_have_no_labels(api: LocalApi) -> None:
    names = "&family=".join(per_object.NODE_FAMILIES)
    found = shown(api, f"/metrics/detailed?family={names}")
    assert found["rabbitmq_detailed_queues_created_total",] == 3
    assert "rabbitmq_detailed_process_max_fds" in {name for name, *_ in found}


PATHS = ["/metrics", "/metrics/per-object", "/metrics/detailed"]


@pytest.mark.parametrize("path", PATHS)
def test_metrics_are_for_monitoring(api: LocalApi, path: str) -> None:
    for name, tags in (("mona", "monitoring"), ("mary", "management")):
        assert api.ask("PUT", f"users/{name}", {"password": name, "tags": tags}).status == 201
    assert api.ask("GET", path, user="mona").status == 200
    assert api.ask("GET", path, user="mary").status == 401
    assert api.ask("GET", path, headers={"authorization": ""}).status == 401


@pytest.mark.parametrize("path", PATHS)
def test_metrics_alone_may_be_open_to_everybody(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    api = LocalApi(monkeypatch, metrics_without_login=True)
    assert api.ask("GET", path, headers={"authorization": ""}).status == 200
    assert api.ask("GET", "nodes", headers={"authorization": ""}).status == 401


def test_too_many_answers_at_a_time_are_refused(api: LocalApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_object, "MOST_ANSWERS", 0)
    assert api.ask("GET", "/metrics/per-object").status == 503
    assert api.ask("GET", "/metrics").status == 200


def test_a_metric_of_many_objects_has_one_header() -> None:
    metric = Metric("queue_messages", "gauge", "Messages")
    parts = list(metric.text(({"queue": str(number)}, number) for number in range(2 * SLICE + 1)))
    assert len(parts) == 3
    text = b"".join(parts).decode()
    assert text.count("#") == 2
    assert len(values(text)) == 2 * SLICE + 1


def test_metrics_are_not_below_the_api() -> None:
    routes = Routes(ROUTES)
    assert routes.find(b"/metrics", (4, 3)) is not None
    for path in (b"/api/metrics", b"/api//metrics", b"//metrics", b"/metrics/nope"):
        assert routes.find(path, (4, 3)) is None
