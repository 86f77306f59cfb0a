"""What RabbitMQ does outside of the specification and its clients live with passes the proxy, too."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from tests.real import raw
from tests.real.clients.amqplib_client import consume_in_small_frames
from tests.real.own import OwnBroker
from tests.real.poll import DEADLINE, until
from tests.real.proxy import Program, StartProxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = [pytest.mark.real, pytest.mark.once]

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
def own(rabbitmq: RabbitMQ, tmp_path: Path) -> Iterator[OwnBroker]:
    """Our own broker, as this RabbitMQ."""
    broker = OwnBroker(tmp_path, "--as", rabbitmq.profile.name)
    yield broker
    broker.kill()


@pytest.fixture
def frame_max(rabbitmq: RabbitMQ) -> int:
    """The smallest that this RabbitMQ takes."""
    return rabbitmq.profile.frame_max_floor


@pytest.fixture
def headers(frame_max: int) -> dict[str, str]:
    """Headers that need a larger frame."""
    return {"stack": "e" * (frame_max + 1000)}


def consume_with_small_frames(
    port: int, publish_at: int, frame_max: int, headers: dict[str, str]
) -> list[dict[str, Any]]:
    """Headers of three messages that a consumer with this frame_max gets and acknowledges, and of what is left."""
    with _connected(publish_at) as publisher, _connected(port, frame_max=frame_max) as connection:
        channel, consumer = publisher.channel(), connection.channel()
        queue = channel.queue_declare("", auto_delete=True).method.queue
        for _ in range(3):
            channel.basic_publish("", queue, b"body", pika.BasicProperties(headers=headers))
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


def test_rabbitmq_and_our_broker_send_content_headers_above_frame_max(
    rabbitmq: RabbitMQ, own: OwnBroker, frame_max: int, headers: dict[str, str]
) -> None:
    for broker in (rabbitmq, own):
        assert consume_with_small_frames(broker.port, broker.port, frame_max, headers) == [headers] * 3


@pytest.mark.parametrize("way", WAYS)
def test_content_headers_above_frame_max_pass(
    way: str, rabbitmq: RabbitMQ, frame_max: int, headers: dict[str, str], start_proxy: StartProxy
) -> None:
    options = dict(WAYS[way])
    extra = ["--findings"] if options.pop("findings", False) else []
    proxy: Program = start_proxy(rabbitmq.port, *extra, **options)
    expected = headers | ({"x": "y"} if "rewrites" in way else {})
    assert consume_with_small_frames(proxy.port, rabbitmq.port, frame_max, headers) == [expected] * 3
    assert "FRAME_ERROR" not in proxy.log
    assert "Traceback" not in proxy.log
    if extra:
        until(lambda: "header-over-frame-max: a message of exchange ''" in proxy.log, "the finding")


@pytest.mark.parametrize("library", ["@cloudamqp/amqp-client", "rabbitmq-client"])
@pytest.mark.parametrize("way", ["straight", "own broker", *WAYS])
def test_clients_of_node_get_content_headers_above_frame_max(
    way: str,
    library: str,
    rabbitmq: RabbitMQ,
    frame_max: int,
    request: pytest.FixtureRequest,
    start_proxy: StartProxy,
) -> None:
    """Each message once, acknowledged by hand: no loop of redeliveries."""
    port = publish_port = rabbitmq.port
    if way == "own broker":
        port = publish_port = request.getfixturevalue("own").port
    elif way in WAYS:
        options = dict(WAYS[way])
        extra = ["--findings"] if options.pop("findings", False) else []
        port = start_proxy(rabbitmq.port, *extra, **options).port
    assert consume_in_small_frames(library, port, publish_port, frame_max) == (3, 0)


BEGUN = raw.publish(1, "nowhere") + raw.header(1, 3)
LONG_BODY = BEGUN + raw.body(1, b"12345")
DELIVER = raw.method(1, 60, 60, raw.shortstr("consumer") + bytes(9) + raw.shortstr("") * 2)
UNREAD = {
    "a long body": (LONG_BODY, raw.body(1, bytes(1000)), 505),
    "a long body in two frames": (BEGUN + raw.body(1, b"12"), raw.body(1, b"34"), 505),
    "basic.deliver": (DELIVER, raw.header(1, 10) + raw.body(1, b"12345"), 505),
}
"""What RabbitMQ reads on, what of it comes later, and how it answers a method then."""


def takes_long_bodies(rabbitmq: RabbitMQ) -> None:
    """Skip the test where RabbitMQ refuses a long body at once, for which test_malformed.py asks."""
    if rabbitmq.profile.refuses_long_bodies:
        pytest.skip("this RabbitMQ refuses a long body")


def asked_qos(peer: raw.Peer, channel: int) -> None:
    peer.send(raw.method(channel, 60, 10, bytes(7)))
    peer.expect(60, 11)


@pytest.mark.parametrize("case", UNREAD)
@pytest.mark.parametrize("way", [way for way in WAYS if "rule that" not in way])
def test_content_that_rabbitmq_reads_on_passes(
    way: str, case: str, rabbitmq: RabbitMQ, start_proxy: StartProxy
) -> None:
    if "long body" in case:
        takes_long_bodies(rabbitmq)
    options = dict(WAYS[way])
    extra = ["--findings"] if options.pop("findings", False) else []
    proxy: Program = start_proxy(rabbitmq.port, *extra, **options)
    first, second, code = UNREAD[case]
    with _connected(proxy.port) as bystander:
        channel = bystander.channel()
        queue = channel.queue_declare("", auto_delete=True).method.queue
        with raw.Peer.opened(proxy.port, 1, 2) as peer:
            for data in (first, second, second if case == "a long body" else b""):
                peer.send(data)
                asked_qos(peer, 2)
            channel.basic_publish("", queue, b"by")
            assert channel.basic_get(queue, auto_ack=True)[2] == b"by"
            peer.send(raw.queue_declare(1))
            closes = [each.close for each in peer.frames() if each.close]
            assert [each.code for each in closes[:1]] == [code]
        channel.basic_publish("", queue, b"still")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"still"
    if extra:
        until(lambda: "unread-content: " in proxy.log, "the finding")
        assert "interleaved-content" not in proxy.log


def test_rules_refuse_content_that_rabbitmq_reads_on(rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    """Another broker may end such a body elsewhere, and rules would be asked about another message than it takes."""
    proxy: Program = start_proxy(rabbitmq.port, **WAYS["a rule that looks"])
    for data, code in ((LONG_BODY, 501), (DELIVER, 503)):
        with raw.Peer.opened(proxy.port, 1) as peer:
            peer.send(data)
            close = peer.closed()
            assert close is not None
            assert close.code == code


def test_rules_that_come_later_hold_beside_such_content(rabbitmq: RabbitMQ, start_proxy: StartProxy) -> None:
    takes_long_bodies(rabbitmq)
    proxy: Program = start_proxy(rabbitmq.port, rules=[])
    with raw.Peer.opened(proxy.port, 1, 2) as peer:
        peer.send(LONG_BODY)
        asked_qos(peer, 2)
        file = proxy.output.with_suffix(".yaml")
        rule = {"name": "no", "action": "refuse", "match": {"method": "queue.declare"}}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"rules": [rule]}))
        proxy.process.send_signal(signal.SIGHUP)
        until(lambda: "rules reloaded" in proxy.log, "the rules to be read again")
        peer.send(raw.body(1, b"6"))
        asked_qos(peer, 2)
        peer.send(raw.queue_declare(2))
        close = next(each.close for each in peer.frames() if each.close)
        assert close.code == 403
