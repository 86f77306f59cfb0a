"""A reader that is attached to a running proxy or broker is right about what passes from then on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqproxy.amqp010.commands import MessageAccept, QueueDeclare
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker import serve_in_thread
from tests.real.amqp010_peer import Amqp010Peer
from tests.real.control_reader import DashboardReader, Reader
from tests.real.own import OwnBroker
from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Program, StartProxy

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture(params=["proxy", "broker"])
def watched(request: pytest.FixtureRequest, start_proxy: StartProxy, tmp_path: Path) -> Iterator[Program]:
    """A proxy in front of the integrated broker, or the broker by itself, with a control socket."""
    if request.param == "proxy":
        with serve_in_thread() as broker:
            yield start_proxy(broker.port, control={"path": "control"})
        return
    config = tmp_path / "broker.toml"
    config.write_text(f'[control]\npath = "{tmp_path}/control"\n')
    own = OwnBroker(tmp_path, "--config", str(config))
    yield own
    own.kill()


def test_messages_after_a_join_have_their_outcomes(watched: Program, tmp_path: Path) -> None:
    with connected(watched, heartbeat=0) as publisher, connected(watched, heartbeat=0) as consumer:
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
        until(lambda: reader.records("finding"), "what is evaluated beside it")
        assert [each["kind"] for each in reader.records("finding")] == ["publisher-heartbeats-off"]
    watched.kill()
    reader.join()
    reader.client.close()
    found = Counter((each["type"], each.get("queue"), each["outcome"]) for each in messages)
    assert found == {
        ("publish", None, "confirmed"): 20,
        ("deliver", "orders", "acked"): 10,
        ("deliver", "trivia", "auto-acked"): 10,
    }
    assert [each["confirm_tag"] for each in messages if each["type"] == "publish"] == [*range(21, 41)]


def test_messages_of_sessions_after_a_join_have_their_outcomes(watched: Program, tmp_path: Path) -> None:
    with Amqp010Peer(watched.port) as publisher, Amqp010Peer(watched.port) as consumer:
        for peer, name in ((publisher, b"publishing"), (consumer, b"consuming")):
            peer.attach(1, name)
        publisher.send(1, QueueDeclare("orders"), QueueDeclare("trivia", sync=True))
        publisher.expect("session.completed")
        consumer.subscribe(1, "orders", "manual", credit=100)
        consumer.subscribe(1, "trivia", "auto", accept_mode=1, credit=100)
        got = 0

        def exchange(count: int) -> None:
            nonlocal got
            for number in range(count):
                publisher.publish(1, b"x", key="orders" if number % 2 else "trivia")
                publisher.expect("session.completed")
            for _ in range(count):
                transfer = consumer.expect("message.transfer").method
                if transfer.destination == "manual":
                    consumer.send(1, MessageAccept(SequenceSet([(got, got)])))
                got += 1

        exchange(20)
        reader = Reader(tmp_path / "control", messages=True, findings=True)
        exchange(20)
        until(lambda: len(reader.records("message")) >= 40, "all messages")
        messages = reader.records("message")  # before the clients close
        until(lambda: reader.records("finding"), "what is evaluated beside it")
        found = {each["kind"] for each in reader.records("finding")}
    watched.kill()
    reader.join()
    reader.client.close()
    assert found == {"publisher-heartbeats-off"}  # as the handshake says, which the snapshot has
    assert Counter((each["type"], each.get("queue"), each["outcome"]) for each in messages) == {
        ("publish", None, "confirmed"): 20,
        ("deliver", "orders", "acked"): 10,
        ("deliver", "trivia", "auto-acked"): 10,
    }
    assert [each["confirm_tag"] for each in messages if each["type"] == "publish"] == [*range(22, 42)]
    assert sorted(each["delivery_tag"] for each in messages if each["type"] == "deliver") == [*range(20, 40)]


def test_so_the_dashboard_and_files_of_packets_have_them(watched: Program, tmp_path: Path) -> None:
    with connected(watched, heartbeat=0) as publisher:
        publishing = publisher.channel()
        publishing.confirm_delivery()
        publishing.queue_declare("orders")
        for _ in range(5):
            publishing.basic_publish("", "orders", b"x")
        reader = DashboardReader(tmp_path / "control")
        for _ in range(5):
            publishing.basic_publish("", "orders", b"x")

        def outcomes() -> list[str]:
            return [each["outcome"] for each in reader.messages()]

        until(lambda: len(outcomes()) >= 5, "all messages")
    watched.kill()
    reader.join()
    reader.client.close()
    assert outcomes()[:5] == ["confirmed"] * 5
