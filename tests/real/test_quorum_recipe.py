"""The rules of the how-to, as they stand there: every queue is a quorum queue, whatever client declares it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.real.celery_tasks import application
from tests.real.celery_worker import Worker
from tests.real.clients import amqplib_client
from tests.real.poll import DEADLINE
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = [pytest.mark.real, pytest.mark.once]

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "force-quorum-queues.md"
QUORUM = {"x-queue-type": "quorum"}


def shown() -> list[dict[str, Any]]:
    """The rules of the how-to."""
    _, _, block = PAGE.read_text().partition('```toml title="quorum.toml"\n')
    return tomllib.loads(block.partition("```")[0])["rules"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def proxy(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path_factory.mktemp("recipe"), rabbitmq.port, rules=shown())
    yield proxy
    proxy.kill()


@pytest.fixture
def kinds(rabbitmq: RabbitMQ) -> Callable[[], dict[str, str]]:
    """Of each queue, its type."""
    words = ["name", "type"]
    return lambda: dict(line.split("\t") for line in rabbitmq.ctl("list_queues", *words).splitlines()[1:])


def test_pika(proxy: Proxy, rabbitmq: RabbitMQ, kinds: Callable[[], dict[str, str]]) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", proxy.port, socket_timeout=DEADLINE))
    channel = connection.channel()
    for arguments in ({}, {"x-max-priority": 5, "x-queue-mode": "lazy"}, {"x-queue-type": "classic"}):
        channel.queue_declare("recipe.pika", arguments=arguments)
    channel.queue_declare("recipe.pika", durable=True, passive=True)
    channel.queue_declare("recipe.stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("recipe.exclusive", exclusive=True)
    channel.queue_declare("recipe.auto", auto_delete=True)
    named = channel.queue_declare("", exclusive=True).method.queue
    also_named = channel.queue_declare("").method.queue
    found = kinds()
    assert found["recipe.pika"] == "quorum"
    assert found["recipe.stream"] == "stream"
    assert {found[each] for each in ("recipe.exclusive", "recipe.auto", named, also_named)} == {"classic"}
    channel.confirm_delivery()
    channel.basic_publish("", "recipe.pika", b"one", pika.BasicProperties(delivery_mode=1), mandatory=True)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    method, _, body = next(channel.consume("recipe.pika", inactivity_timeout=DEADLINE))
    assert body == b"one"
    channel.basic_ack(method.delivery_tag)
    channel.cancel()
    for queue in ("recipe.pika", "recipe.stream", "recipe.auto", also_named):
        channel.queue_delete(queue)
    connection.close()


def test_amqplib(proxy: Proxy) -> None:
    broker: Any = SimpleNamespace(port=proxy.port, block=None, unblock=None)
    amqplib_client.run(broker, "named_queues")


def delete(rabbitmq: RabbitMQ, queues: list[str]) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", rabbitmq.port))
    for queue in queues:
        connection.channel().queue_delete(queue)
    connection.close()


def test_celery(proxy: Proxy, tmp_path: Path, kinds: Callable[[], dict[str, str]], rabbitmq: RabbitMQ) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{proxy.port}//"
    queues = ["tests.celery", "tests.celery.late", "tests.celery.priorities"]
    delete(rabbitmq, queues)  # other tests leave them there, as classic ones
    worker = Worker(url, tmp_path, "tests.celery,tests.celery.priorities")
    try:
        with application(url) as app:
            assert [app.send_task("add", (each, 1)).get(DEADLINE) for each in range(5)] == [1, 2, 3, 4, 5]
            assert app.send_task("retry", (0.1,)).get(DEADLINE) == 2
            result = app.send_task("add", (1, 1), queue="tests.celery.priorities", priority=5)
            assert result.get(DEADLINE) == 2
            assert app.control.inspect([worker.name], timeout=DEADLINE, limit=1).ping()
            found = kinds()
            app.backend.result_consumer.stop()
            app.amqp.producer_pool.force_close_all()
            app.pool.force_close_all()
    finally:
        worker.kill()
    assert found["tests.celery"] == found["tests.celery.priorities"] == "quorum"
    delete(rabbitmq, queues)
