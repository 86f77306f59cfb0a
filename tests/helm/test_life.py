"""Pods of the chart under load, as in a cluster: one ends while another takes over, and no confirmed message is lost.

What a kubelet does is in `pod`; everything that it goes by is taken from the render.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.helm.chart import rendered, workload
from tests.helm.pod import Ended, Pod
from tests.helm.shop import QUEUE, Client, Consumer, Publisher
from tests.real import raw
from tests.real.poll import until
from tests.real.rabbitmq import RabbitMQ
from tests.real.raw import Peer

pytestmark = [pytest.mark.real, pytest.mark.once]

DRAIN = {"seconds": 8, "delaySeconds": 2}
"""Shorter than the chart's own values, which would make no difference but to the time that this takes."""

PUBLISHERS = 3


class Cluster:
    """Pods of one render, in front of RabbitMQ."""

    def __init__(self, directory: Path, rabbitmq: RabbitMQ, values: dict[str, Any]) -> None:
        objects = rendered(values)
        self.workload = workload(objects)
        self._config = objects["ConfigMap demo-amqproxy"]
        self._hosts = {"rabbitmq:5672": f"127.0.0.1:{rabbitmq.port}"}
        self._directory = directory
        self._pods: list[Pod] = []

    def pod(self) -> Pod:
        """One more, when it is ready."""
        directory = self._directory / f"pod-{len(self._pods)}"
        directory.mkdir()
        pod = Pod(directory, self.workload, self._config, self._hosts)
        self._pods.append(pod)
        until(lambda: pod.is_ready, "the pod to be ready")
        return pod

    def kill(self) -> None:
        for pod in self._pods:
            pod.kill()


@pytest.fixture
def cluster(tmp_path: Path, rabbitmq: RabbitMQ) -> Iterator[Callable[[dict[str, Any]], Cluster]]:
    with ExitStack() as stack:

        def make(values: dict[str, Any]) -> Cluster:
            made = Cluster(tmp_path, rabbitmq, values)
            stack.callback(made.kill)
            return made

        yield make


@pytest.fixture
def orders(rabbitmq: RabbitMQ, request: pytest.FixtureRequest) -> Iterator[str]:
    """The queue of the shops; afterwards, RabbitMQ has seen no connection that was cut or that broke the protocol."""
    begin = f"queue of {request.node.name}"
    own = pika.ConnectionParameters("127.0.0.1", rabbitmq.port, client_properties={"connection_name": begin})
    with pika.BlockingConnection(own) as connection:
        channel = connection.channel()
        channel.queue_declare(QUEUE, durable=True)
        yield QUEUE
        channel.queue_delete(QUEUE)
    log = rabbitmq.log
    assert begin in log
    assert not re.search("unexpectedly closed|rror on AMQP connection", log.rpartition(begin)[2]), log


def deleted(pod: Pod, during: Callable[[], None]) -> dict[str, Ended]:
    """How it ended; `during` runs once its end has begun."""
    found: list[dict[str, Ended]] = []
    deleting = threading.Thread(target=lambda: found.append(pod.delete()))
    deleting.start()
    try:
        during()
    finally:
        deleting.join()
    return found[0]


def is_whole(client: Client) -> bool:
    """Whether each end of its connections was one that the proxy had announced."""
    return all(isinstance(each, ConnectionClosedByBroker) and each.reply_code == 320 for each in client.ends)


@pytest.mark.usefixtures("orders")
def test_a_deployment_is_replaced_under_load(cluster: Callable[[dict[str, Any]], Cluster]) -> None:
    demo = cluster({"drain": DRAIN})
    assert demo.workload["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    service = [demo.pod()]
    publishers = [Publisher(lambda: service[-1].port("amqp"), str(number)) for number in range(PUBLISHERS)]
    consumer = Consumer(lambda: service[-1].port("amqp"))
    clients: list[Client] = [*publishers, consumer]
    for client in clients:
        client.start()
    try:
        until(lambda: all(len(each.confirmed) > 100 for each in publishers), "orders to be confirmed")
        [old], new = service, demo.pod()

        def withdraw() -> None:
            """Balancers hear of it late: until then, the pod that is about to end still takes clients."""
            with Peer.opened(old.port("amqp"), 1) as late:
                assert old.is_ready
                service.append(new)
                until(lambda: not old.is_ready, "the pod to drain")
                close = late.expect(10, 50).close
                assert close is not None
                assert close.code == 320
                late.send(raw.connection_close_ok())

        ended = deleted(old, withdraw)["amqproxy"]
        assert (ended.code, ended.is_killed) == (0, False), old.log("amqproxy")
        assert DRAIN["delaySeconds"] <= ended.after < old.grace - 10
        before = [len(each.confirmed) for each in publishers]
        until(
            lambda: all(len(each.confirmed) > count + 100 for each, count in zip(publishers, before, strict=True)),
            "the second pod to have taken over",
        )
    finally:
        for each in publishers:
            each.stop()
    confirmed = {order for each in publishers for order in each.confirmed}
    until(lambda: confirmed <= consumer.received, "what was confirmed to be delivered")
    consumer.stop()
    assert all(is_whole(each) for each in clients), [each.ends for each in clients]
    assert all(each.connections == 2 for each in clients)
    assert "Traceback" not in old.log("amqproxy") + new.log("amqproxy")


@pytest.mark.usefixtures("orders")
def test_a_sidecar_outlives_what_it_stands_beside(
    cluster: Callable[[dict[str, Any]], Cluster], rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    shop = {
        "name": "shop",
        "image": "python:3.13",
        "args": ["-m", "tests.helm.shop", "shop", "/data/confirmed"],
        "env": [{"name": "AMQP_ADDRESS", "value": "127.0.0.1:5672"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    sidecar = {"containers": [shop], "volumes": [{"name": "data", "emptyDir": {}}]}
    demo = cluster({"mode": "sidecar", "sidecar": sidecar, "drain": DRAIN})
    consumer = Consumer(lambda: rabbitmq.port)
    consumer.start()
    try:
        old = demo.pod()
        until(lambda: len(consumer.received) > 100, "orders to arrive")
        new = demo.pod()
        pods = [deleted(pod, lambda: None) for pod in (old, new)]
        for pod, ended in zip((old, new), pods, strict=True):
            assert (ended["shop"].code, ended["shop"].is_killed) == (0, False), pod.log("shop")
            assert (ended["amqproxy"].code, ended["amqproxy"].is_killed) == (0, False), pod.log("amqproxy")
            assert ended["shop"].after <= ended["amqproxy"].after < pod.grace - 10
            assert "Traceback" not in pod.log("amqproxy")
        files = sorted(tmp_path.glob("pod-*/volumes/data/confirmed"))
        assert len(files) == 2
        confirmed = {order for file in files for order in file.read_text().split()}
        until(lambda: confirmed <= consumer.received, "what was confirmed to be delivered")
    finally:
        consumer.stop()
    assert not consumer.ends


def test_a_client_that_never_answers_does_not_cost_the_grace_period(
    cluster: Callable[[dict[str, Any]], Cluster],
) -> None:
    demo = cluster({"drain": {"seconds": 1, "delaySeconds": 1}})
    pod = demo.pod()
    with Peer.opened(pod.port("amqp"), 1):
        ended = pod.delete()["amqproxy"]
    assert (ended.code, ended.is_killed) == (0, False)
    assert ended.after < pod.grace
