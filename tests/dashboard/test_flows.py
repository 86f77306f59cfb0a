"""Flows between clients, exchanges and queues: their counts, rates and bounds."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicDeliver, BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.dashboard import flows as module
from amqproxy.dashboard.flows import DIRECT_REPLY_TO, Arrival, FlowRow, Flows, shown
from amqproxy.dashboard.observed_seconds import SECOND
from amqproxy.dashboard.party import Party
from amqproxy.dashboard.subject import flow_lists
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.trace.events import MessageDelivered, MessagePublished

pytestmark = pytest.mark.once

SHOP = Party("shop", "guest", "/")
WORKER = Party("worker", "guest", "/")
START = 1_767_225_600


def publish(second: float, key: str = "new", exchange: str = "orders") -> MessagePublished:
    method = BasicPublish(exchange=exchange, routing_key=key)
    return MessagePublished(
        int((START + second) * SECOND), 1, number=1, method=method, properties=Properties(), size=10, awaits=True
    )


def delivery(second: float, queue: str = "q") -> MessageDelivered:
    method = BasicDeliver(exchange="orders", routing_key="new", delivery_tag=1, consumer_tag="c")
    return MessageDelivered(
        int((START + second) * SECOND), 1, method=method, properties=Properties(), size=10, queue=queue, awaits=True
    )


def record(outcome: str, type: str = "publish", **more: object) -> MessageRecord:
    names = {"exchange": "orders", "routing_key": "new"} | ({"queue": "q"} if type == "deliver" else {})
    return MessageRecord(ts_ns=1, stream=1, connection="a:1-b:2", type=type, outcome=outcome, **{**names, **more})  # type: ignore[arg-type]


def rows(flows: Flows, second: float) -> dict[str, list[FlowRow]]:
    return flow_lists(flows, lambda key: True, flows.window(int((START + second) * SECOND)), 100)


def live(seconds: range, a_second: int = 10, *, is_lost: range = range(0)) -> Flows:
    """A client that publishes evenly while some seconds are lost on the way to the dashboard."""
    flows = Flows(is_live=True)
    for second in seconds:
        if second in is_lost:
            flows.seconds.lose()
            continue
        for each in range(a_second):
            event = publish(second + each / a_second)
            flows.seconds.take(event.ts_ns)
            flows.take(SHOP, [event])
    return flows


def test_publishes_and_deliveries_are_counted_by_client_and_name() -> None:
    flows = Flows(is_live=False)
    flows.take(SHOP, [publish(each) for each in range(11)])
    flows.take(WORKER, [delivery(each) for each in range(6)])
    found = rows(flows, 0)
    [published], [delivered] = found["published"], found["delivered"]
    assert (published.client, published.exchange, published.routing_key, published.messages) == (
        "shop",
        "orders",
        "new",
        11,
    )
    assert published.rate == pytest.approx(1.1)
    assert (delivered.client, delivered.queue, delivered.exchange, delivered.bytes) == ("worker", "q", "orders", 60)


def test_a_gap_changes_no_rate() -> None:
    [whole] = rows(live(range(50)), 50)["published"]
    [gap] = rows(live(range(50), is_lost=range(20, 25)), 50)["published"]
    [still] = rows(live(range(50), is_lost=range(45, 50)), 50)["published"]
    assert whole.rate == gap.rate == still.rate == 10


def test_a_client_that_has_stopped_has_no_rate_any_more() -> None:
    flows = live(range(10))
    [slow] = rows(flows, 30)["published"]
    [none] = rows(flows, 200)["published"]
    assert (slow.rate < 10, none.rate, none.messages) == (True, 0, 100)


def test_outcomes_latencies_and_errors() -> None:
    flows = Flows(is_live=False)
    flows.take(SHOP, [publish(0)] * 4)
    flows.take(WORKER, [delivery(0)] * 2)
    for each in (
        record("pending"),
        record("confirmed", seconds=0.002),
        record("confirmed", seconds=0.002, code=312),
        record("nacked", seconds=0.002),
        record("unknown", seconds=50.0),
    ):
        flows.settle(SHOP, each)
    flows.settle(WORKER, record("acked", "deliver", seconds=0.02))
    flows.settle(WORKER, record("rejected", "deliver", seconds=0.02))
    flows.settle(WORKER, record("acked", "deliver", queue="other"))
    found = rows(flows, 0)
    [published], [delivered] = found["published"], found["delivered"]
    assert published.outcomes == {"confirmed": 1, "returned": 1, "nacked": 1, "unknown": 1}
    assert published.errors == 2
    assert 2e-3 <= (published.p99 or 0) <= 2.25e-3
    assert (delivered.errors, delivered.outcomes) == (1, {"acked": 1, "rejected": 1})
    assert 20e-3 <= (delivered.p50 or 0) <= 22.5e-3


def test_many_routing_keys_are_one_flow() -> None:
    flows = Flows(is_live=False)
    flows.take(SHOP, [publish(each, f"key.{each}") for each in range(100)])
    found = rows(flows, 0)["published"]
    assert len(found) == module.MAX_KEYS + 1
    assert [each.messages for each in found if each.routing_key is None] == [100 - module.MAX_KEYS]
    flows.settle(SHOP, record("nacked", routing_key="key.99"))
    assert [each.errors for each in rows(flows, 0)["published"] if each.routing_key is None] == [1]


def test_flows_are_bounded_and_the_idle_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FLOWS", 10)
    flows = Flows(is_live=False)
    for each in range(100):
        flows.take(SHOP, [publish(each, exchange=f"random-{each}"), publish(each)])
    assert len(flows) == 10
    assert flows.forgotten == 91
    assert len(flows._keys) == 10
    [kept] = [each for each in rows(flows, 0)["published"] if each.exchange == "orders"]
    assert kept.messages == 100


def test_names_are_shown_as_json_has_them() -> None:
    assert shown("orders") == "orders"
    assert shown("Grüße") == "Grüße"
    assert shown(f"{DIRECT_REPLY_TO}.g1h2AA.b4==") == DIRECT_REPLY_TO
    assert shown("a\udcff") == shown({"base64": "Yf8="})
    assert len(shown("x" * 10_000)) == module.MAX_NAME + 1


def test_both_ends_have_the_time_from_publish_to_delivery() -> None:
    flows = Flows(is_live=False)
    flows.take(SHOP, [publish(0)] * 3)
    known = Arrival(SHOP, "orders", "new", 0.04)
    flows.take(WORKER, [delivery(0), publish(0, "other"), delivery(0), delivery(0)], [known, None, known])
    found = rows(flows, 0)
    by_shop, by_worker = sorted(found["published"], key=lambda each: each.client)
    [delivered] = found["delivered"]
    for each in (by_shop, delivered):
        assert 0.04 <= (each.transit_p50 or 0) == each.transit_p99 <= 0.045
    assert by_worker.transit_p99 is None
