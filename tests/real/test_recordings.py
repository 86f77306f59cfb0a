"""Each client's scenarios recorded, played again, and recorded again: the same commands, and the same failures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.real.celery_run import three_tasks
from tests.real.clients import Broker, Scenario, amqpstorm_client, rabbitmq_c_client
from tests.real.clients.mistakes import MISTAKES, QUEUE, connected
from tests.real.clients.scenarios import AMQPSTORM_SCENARIOS, CLIENTS, SCENARIOS
from tests.real.exports import wrong_in_exported_capture, wrong_in_suggested_access
from tests.real.own import OwnBroker
from tests.real.rabbitmq import RabbitMQ
from tests.real.recordings import Recordings, differences, kinds_of_findings, unlike_tshark

pytestmark = [pytest.mark.real, pytest.mark.once]


def with_port(play: Callable[[int], None]) -> Scenario:
    return lambda broker: play(broker.port)


def celery(broker: Broker) -> None:
    """A worker with its usual settings, and a program that gives it tasks: several connections each, random names."""
    with tempfile.TemporaryDirectory() as directory:
        three_tasks(broker.port, is_careful=True, log=Path(directory) / "worker.log")


SHOWN = 5
"""Differences of each kind that a failing test shows."""

PLAYS: dict[str, Scenario] = {
    **{f"{name} {each}": getattr(client, each) for name, client in CLIENTS.items() for each in SCENARIOS},
    **{f"AMQPStorm {each}": getattr(amqpstorm_client, each) for each in AMQPSTORM_SCENARIOS},
    "Celery": celery,
    "rabbitmq-c": rabbitmq_c_client.every_tool,
    **{name: with_port(mistake.play) for name, mistake in MISTAKES.items()},
}


class Stage:
    """RabbitMQ and our own broker, what is recorded before them, and a place for it."""

    def __init__(self, rabbitmq: Broker, own: Broker, recordings: Recordings, directory: Path) -> None:
        self.rabbitmq, self.own = rabbitmq, own
        self.recordings = recordings
        self.first, self.on_rabbitmq, self.on_own = (
            directory / f"{name}.pcapng" for name in ("first", "on-rabbitmq", "on-own")
        )

    def clean(self) -> None:
        """Delete what plays leave behind."""
        for broker in (self.rabbitmq, self.own):
            with closing(connected(broker.port)) as connection:
                connection.channel().queue_delete(QUEUE)

    def record(self, play: Scenario) -> list[str]:
        """The kinds of findings in what is recorded."""
        kinds = self.recordings.record(self.rabbitmq, self.first, play)
        self.clean()
        return kinds


@pytest.fixture(scope="module")
def recordings() -> Recordings:
    return Recordings()


@pytest.fixture
def stage(rabbitmq: RabbitMQ, own_broker: OwnBroker, recordings: Recordings, tmp_path: Path) -> Iterator[Stage]:
    brokers = (Broker(each.port, each.ctl) for each in (rabbitmq, own_broker))
    stage = Stage(*brokers, recordings, tmp_path)
    yield stage
    stage.clean()


@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
def test_played_again_it_is_the_same(play: Scenario, stage: Stage) -> None:
    """On both brokers; what made a client fail makes the replay fail alike."""
    expected = stage.record(play)
    found = {
        "replay on RabbitMQ": stage.recordings.replay(stage.first, stage.rabbitmq, stage.on_rabbitmq),
        "replay on our broker": stage.recordings.replay(stage.first, stage.own, stage.on_own),
        "suggested access": wrong_in_suggested_access(stage.first),
        "exported capture": wrong_in_exported_capture(stage.first),
    }
    found["recorded on RabbitMQ"], found["recorded on our broker"] = differences(
        stage.first, stage.on_rabbitmq, stage.on_own
    )
    assert not any(found.values()), "\n".join(
        f"{name}: {each}" for name, reports in found.items() for each in reports[:SHOWN]
    )
    assert [kinds_of_findings(each) for each in (stage.on_rabbitmq, stage.on_own)] == [expected, expected]


def test_tshark_sees_the_same_in_all_recordings(stage: Stage, tmp_path: Path) -> None:
    """In those of the tests before, and at least in one."""
    stage.record(PLAYS["pika publish_consume"])
    file = tmp_path / "all.pcapng"
    file.write_bytes(b"".join(each.read_bytes() for each in stage.recordings.for_tshark))
    found, compared = unlike_tshark(file)
    assert not found, "\n".join(map(str, found))
    assert compared > 100
