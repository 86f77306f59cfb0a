"""What RabbitMQ does outside of the specification and its clients live with passes the proxy, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from tests.real.own import OwnBroker
from tests.real.poll import DEADLINE
from tests.real.proxy import Program, StartProxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real

HEADERS = {"stack": "e" * 5000}
WAYS: dict[str, dict[str, Any]] = {
    "no rule": {},
    "no pump": {"threads": 0},
    "taps": {"findings": True},
    "a rule that rewrites": {
        "rules": [
            {"name": "mark", "action": "rewrite", "match": {"method": "basic.deliver"}, "headers": {"set": {"x": "y"}}}
        ]
    },
    "a rule that looks": {"rules": [{"name": "look", "action": "log", "match": {"method": "basic.deliver"}}]},
}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnBroker]:
    broker = OwnBroker(tmp_path)
    yield broker
    broker.kill()


def consume_with_small_frames(port: int, publish_at: int) -> list[dict[str, Any]]:
    """Headers of three messages that a consumer with frame_max 4096 gets and acknowledges, and of what is left."""
    with _connected(publish_at) as publisher, _connected(port, frame_max=4096) as connection:
        channel, consumer = publisher.channel(), connection.channel()
        queue = channel.queue_declare("", auto_delete=True).method.queue
        for _ in range(3):
            channel.basic_publish("", queue, b"body", pika.BasicProperties(headers=HEADERS))
        found = []
        for method, properties, body in consumer.consume(queue, inactivity_timeout=DEADLINE):
            assert method is not None, "the message never came"
            assert (body, method.redelivered) == (b"body", False)
            found.append(dict(properties.headers))
            consumer.basic_ack(method.delivery_tag)
            if len(found) == 3:
                break
        assert consumer.cancel() == 0
        return found


def _connected(port: int, **options: Any) -> BlockingConnection:
    return BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, socket_timeout=DEADLINE, **options))


def test_rabbitmq_and_our_broker_send_content_headers_above_frame_max(rabbitmq: RabbitMQ, own: OwnBroker) -> None:
    for broker in (rabbitmq, own):
        assert consume_with_small_frames(broker.port, broker.port) == [HEADERS] * 3


@pytest.mark.parametrize("way", WAYS)
def test_content_headers_above_frame_max_pass(way: str, rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    options = dict(WAYS[way])
    extra = ["--findings"] if options.pop("findings", False) else []
    proxy: Program = start_proxy(rabbitmq.port, *extra, **options)
    expected = HEADERS | ({"x": "y"} if "rewrites" in way else {})
    assert consume_with_small_frames(proxy.port, rabbitmq.port) == [expected] * 3
    assert "FRAME_ERROR" not in proxy.log
    assert "Traceback" not in proxy.log
    if extra:
        assert "header-over-frame-max: a message of exchange ''" in proxy.log
