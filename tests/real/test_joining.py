"""A reader that is attached to a running proxy is right about what passes from then on."""

from __future__ import annotations

import time
from base64 import b64decode
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from amqproxy.broker import serve_in_thread
from amqproxy.capture.packet_decoder import PacketDecoder
from amqproxy.control.control_client import ControlClient
from amqproxy.control.request_error import RequestError
from dashboard.observation import Observation
from dashboard.ring_entry import RingEntry
from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy

pytestmark = [pytest.mark.real, pytest.mark.once]


class Reader(Thread):
    """Events of a subscription."""

    def __init__(self, path: Path, **wanted: bool) -> None:
        super().__init__(daemon=True)
        self.client = ControlClient(path)
        self.client.ask("subscribe", **wanted)
        self.events: list[dict[str, Any]] = []
        self.start()

    def run(self) -> None:
        with suppress(RequestError):  # the proxy is gone
            for event in self.client.events():
                self.events.append(dict(event))

    def records(self, kind: str) -> list[dict[str, Any]]:
        return [each["record"] for each in list(self.events) if each["event"] == kind]


def test_messages_after_a_join_have_their_outcomes(start_proxy: StartProxy, tmp_path: Path) -> None:
    with serve_in_thread() as broker:
        proxy: Proxy = start_proxy(broker.port, control={"path": "control"})
        with connected(proxy, heartbeat=0) as publisher, connected(proxy, heartbeat=0) as consumer:
            publishing, consuming = publisher.channel(), consumer.channel()
            publishing.confirm_delivery()
            publishing.queue_declare("orders")
            publishing.queue_declare("trivia")
            got: list[int] = []

            def consume(channel: Any, method: Any, properties: Any, body: bytes) -> None:
                got.append(method.delivery_tag)
                if method.consumer_tag == "manual":
                    channel.basic_ack(method.delivery_tag)

            consuming.basic_qos(prefetch_count=10)
            consuming.basic_consume("orders", consume, consumer_tag="manual")
            consuming.basic_consume("trivia", consume, consumer_tag="auto", auto_ack=True)

            def exchange(count: int) -> None:
                before = len(got)
                for number in range(count):
                    publishing.basic_publish("", "orders" if number % 2 else "trivia", b"x")
                end = time.monotonic() + 20
                while len(got) < before + count and time.monotonic() < end:
                    consumer.process_data_events(0.05)
                assert len(got) == before + count

            exchange(20)
            reader = Reader(tmp_path / "control", messages=True, findings=True)
            exchange(20)
            publisher.process_data_events(0.1)
            consumer.process_data_events(0.1)
            until(lambda: len(reader.records("message")) >= 40, "all messages")
            messages = reader.records("message")  # before the clients close
            assert [each["kind"] for each in reader.records("finding")] == ["publisher-heartbeats-off"]
        proxy.kill()
        reader.join()
        reader.client.close()
    found = Counter((each["type"], each.get("queue"), each["outcome"]) for each in messages)
    assert found == {
        ("publish", None, "confirmed"): 20,
        ("deliver", "orders", "acked"): 10,
        ("deliver", "trivia", "auto-acked"): 10,
    }
    assert [each["confirm_tag"] for each in messages if each["type"] == "publish"] == [*range(21, 41)]


def test_so_the_dashboard_and_files_of_packets_have_them(start_proxy: StartProxy, tmp_path: Path) -> None:
    with serve_in_thread() as broker:
        proxy: Proxy = start_proxy(broker.port, control={"path": "control"})
        with connected(proxy, heartbeat=0) as publisher:
            publishing = publisher.channel()
            publishing.confirm_delivery()
            publishing.queue_declare("orders")
            for _ in range(5):
                publishing.basic_publish("", "orders", b"x")
            reader = Reader(tmp_path / "control", packets=True)
            decoder, observation = PacketDecoder(), Observation(1 << 20, is_live=True)
            for _ in range(5):
                publishing.basic_publish("", "orders", b"x")

            def outcomes() -> list[str]:
                while reader.events:
                    for seq, decoded in enumerate(decoder.feed(b64decode(reader.events.pop(0)["data"]))):
                        observation.take(RingEntry(seq, 1, 0.0, decoded, 0))
                return [each.outcome for each in observation.messages.snapshot()]

            until(lambda: len(outcomes()) >= 5, "all messages")
        proxy.kill()
        reader.join()
        reader.client.close()
    assert outcomes()[:5] == ["confirmed"] * 5
