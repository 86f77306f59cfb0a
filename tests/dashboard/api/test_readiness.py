"""Readiness for an upgrade, of a capture."""

from __future__ import annotations

from pathlib import Path

from amqproxy.amqp091.methods import QueueDeclare, QueueDeclareOk
from amqproxy.amqp091.wire import Table
from amqproxy.dashboard.settings import Settings
from tests.dashboard.conftest import Dashboard, client_of
from tests.export.dialogue import Dialogue
from tests.pipeline.captures_by_hand import capture_of

READINESS = "/api/v1/sources/0/readiness"


def test_uses_are_counted_as_far_as_they_are_reported(tmp_path: Path) -> None:
    """Twelve declares are found at the first and the tenth."""
    made = Dialogue("shop")
    for _ in range(12):
        declare = QueueDeclare(queue="orders", durable=True, arguments=Table({"x-queue-version": 1}))
        made.client(declare).server(QueueDeclareOk("orders", 0, 0))
    (tmp_path / "a.pcapng").write_bytes(capture_of(made))
    with client_of(Settings(captures=(tmp_path / "a.pcapng",))) as client:
        report = client.get(READINESS).json()
    [use] = report["uses"]
    assert (use["kind"], use["level"], use["user"], use["times"]) == ("rabbitmq4-queue-version", "breaks", "shop", 10)
    assert not report["is_ready"]
    assert report["verdict"].startswith("Not ready for RabbitMQ 4.3: 1 would break")
    assert 'arguments.remove = ["x-queue-version"]' in report["rules"]


def test_a_capture_that_is_ready(dashboard: Dashboard) -> None:
    report = dashboard("heartbeats").get(READINESS).json()
    assert (report["is_ready"], report["uses"], report["rules"]) == (True, [], "")
