"""A Celery worker, and what it asks of a broker: RabbitMQ, and our own, straight and through the proxy."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError

from tests.real.celery_tasks import PRIORITIES, application
from tests.real.celery_worker import Worker
from tests.real.own import OwnBroker
from tests.real.poll import DEADLINE, until
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.fixture(scope="module", params=["rabbitmq", "own", "proxy"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where Celery finds its broker."""
    if request.param == "rabbitmq":
        yield request.getfixturevalue("rabbitmq").url
        return
    broker: OwnBroker = request.getfixturevalue("own_broker")
    if request.param == "own":
        yield f"amqp://guest:guest@127.0.0.1:{broker.port}//"
        return
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), broker.port)
    yield f"amqp://guest:guest@127.0.0.1:{proxy.port}//"
    proxy.kill()


@pytest.fixture(scope="module")
def worker(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(url, tmp_path_factory.mktemp("celery"), "tests.celery", "--task-events")
    yield worker
    worker.kill()


@pytest.fixture(scope="module")
def app(url: str) -> Iterator[Any]:
    with application(url) as app:
        yield app
        if app.backend.result_consumer._connection is not None:  # a test has waited for a result
            app.backend.result_consumer.stop()
        app.amqp.producer_pool.force_close_all()
        app.pool.force_close_all()


@pytest.fixture
def run(app: Any, worker: Worker) -> Callable[..., Any]:
    """Send a task."""
    return app.send_task  # type: ignore[no-any-return]


def test_a_result_comes_back(run: Callable[..., Any]) -> None:
    assert [run("add", (each, 1)).get(DEADLINE) for each in range(5)] == [1, 2, 3, 4, 5]
    results = [run("add", (each, each)) for each in range(20)]
    assert [each.get(DEADLINE) for each in results] == [2 * each for each in range(20)]


def test_a_task_is_tried_again_after_a_while(run: Callable[..., Any]) -> None:
    assert run("retry", (0.1,)).get(DEADLINE) == 2


def test_a_revoked_task_is_not_done(app: Any, run: Callable[..., Any], worker: Worker) -> None:
    """A worker receives this through a fanout exchange, and answers."""
    result = run("note", ("revoked",), countdown=1)
    (answer,) = app.control.revoke(result.id, reply=True, timeout=DEADLINE, limit=1)
    assert list(answer) == [worker.name]
    with pytest.raises(TaskRevokedError):
        result.get(DEADLINE)
    assert "revoked" not in run("noted").get(DEADLINE)


def test_a_worker_sends_events(app: Any, worker: Worker) -> None:
    inspect = app.control.inspect([worker.name], timeout=DEADLINE, limit=1)
    assert inspect.ping() == {worker.name: {"ok": "pong"}}
    (queue,) = inspect.active_queues()[worker.name]
    assert queue["name"] == "tests.celery"


def test_the_most_urgent_first(app: Any, run: Callable[..., Any], worker: Worker) -> None:
    for priority in (1, 9, 5):
        run("note", (priority,), queue=PRIORITIES, priority=priority)
    app.control.add_consumer(PRIORITIES.name, destination=[worker.name], reply=True, timeout=DEADLINE, limit=1)
    done = until(lambda: [each for each in run("noted").get(DEADLINE) if each in (1, 5, 9)][2:], "all to be done")
    assert done
    assert [each for each in run("noted").get(DEADLINE) if each in (1, 5, 9)] == [9, 5, 1]


def test_events(app: Any, run: Callable[..., Any]) -> None:
    sent: list[str] = []
    seen: list[str] = []

    def received_from_worker(_: Any) -> None:
        if not sent:
            sent.append(run("add", (1, 1)).id)

    def seen_event(event: dict[str, Any]) -> None:
        if event.get("uuid") in sent:
            seen.append(event["type"])
            receiver.should_stop = event["type"] == "task-succeeded"

    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, {"worker-heartbeat": received_from_worker, "*": seen_event})
        receiver.capture(timeout=DEADLINE, wakeup=True)
    assert seen == ["task-received", "task-started", "task-succeeded"]


def test_what_a_killed_worker_had_is_done_by_another(app: Any, url: str, tmp_path: Path) -> None:
    alone = ("--without-mingle", "--without-gossip", "--without-heartbeat")
    started = tmp_path / "started"
    first = Worker(url, tmp_path, "tests.celery.late", *alone)
    try:
        result = app.send_task("late", (str(started),), queue="tests.celery.late")
        until(started.exists, "the task to be started")
    finally:
        first.kill()
    second = Worker(url, tmp_path, "tests.celery.late", *alone)
    try:
        assert result.get(DEADLINE) == "redelivered"
    finally:
        second.kill()
