"""What is found of programs that use real libraries wrong, before RabbitMQ; nothing where they use them right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pytest

from amqproxy.taps.findings.finding import Severity
from amqproxy.testing.local_proxy import LocalProxy
from tests.real.celery_run import three_tasks
from tests.real.clients.mistakes import MISTAKES, QUEUE, Mistake, Play, connected
from tests.real.poll import until
from tests.real.rabbitmq import RabbitMQ
from tests.real.reports import Report, captured, name_of
from tests.real.wire import Recorder

pytestmark = pytest.mark.real


@pytest.fixture
def clean(rabbitmq: RabbitMQ) -> Iterator[None]:
    yield
    with closing(connected(rabbitmq.port)) as connection:
        connection.channel().queue_delete(QUEUE)


def comparable(findings: list[Report]) -> list[tuple[object, ...]]:
    """What two observers must agree about; connections have other numbers, and there is no order between them."""
    return sorted(
        (
            each["connection"],
            each["kind"],
            each["text"],
            each.get("channel", 0),
            *((record["from"], record["number"]) for record in each["evidence"]),
        )
        for each in findings
    )


Found = Callable[[Play], list[tuple[str, str]]]


@pytest.fixture
def found(rabbitmq: RabbitMQ, clean: None) -> Found:
    """Play something through a proxy, and return kind and severity of what was found: live as in a capture of it."""

    def found(play: Play) -> list[tuple[str, str]]:
        with LocalProxy(f"127.0.0.1:{rabbitmq.port}") as proxy, Recorder(proxy.port) as recorder:
            play(recorder.port)
            recorded = recorder.take()
            names = {name_of(each) for each in recorded}
            ended = partial(
                lambda: {
                    each.connection for each in proxy.messages.where(type="connection") if each.outcome == "closed"
                }
            )
            until(lambda: names <= ended(), "the proxy to see the end of all connections")
            live = proxy.findings
        reports = [msgspec.json.decode(each.to_json()) for each in live]
        assert comparable(reports) == comparable([each for each in captured(recorded) if "kind" in each])
        return [(each.kind, str(each.severity)) for each in live]

    return found


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_and_nothing_else(mistake: Mistake, found: Found) -> None:
    assert sorted(kind for kind, _ in found(mistake.play)) == sorted(mistake.kinds)


RIGHT = {mistake.right: name for name, mistake in MISTAKES.items()}


@pytest.mark.parametrize("play", RIGHT, ids=[f"not {name}" for name in RIGHT.values()])
def test_nothing_is_found_of_what_is_right(play: Play, found: Found) -> None:
    assert [each for each in found(play) if each[1] != Severity.INFO] == []


def test_celery_by_default(rabbitmq: RabbitMQ, found: Found, tmp_path: Path) -> None:
    """It does not ask for confirms: neither who sends a task, nor a worker that asks others who is there.

    Connections that it only publishes on have no heartbeats, since nothing would send them in time. Its prefetch is for
    the whole channel, unless RabbitMQ says that it is version 4.
    """
    kinds = [
        ("publisher-heartbeats-off", "info"),
        ("publisher-heartbeats-off", "info"),
        *([("rabbitmq4-global-qos", "info")] if rabbitmq.profile.version < "4" else []),
        ("unconfirmed-publish", "warning"),
        ("unconfirmed-publish", "warning"),
    ]
    assert sorted(found(partial(three_tasks, is_careful=False, log=tmp_path / "worker.log"))) == kinds


def test_celery_with_confirms(found: Found, tmp_path: Path) -> None:
    play = partial(three_tasks, is_careful=True, log=tmp_path / "worker.log")
    assert [each for each in found(play) if each[1] != Severity.INFO] == []
