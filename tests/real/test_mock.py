"""A mock serves real clients from recordings of RabbitMQ: the scenarios go as they went there, to the last command."""

from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.comparison.command_store import CommandStore
from amqproxy.comparison.comparison import compared
from amqproxy.comparison.difference import Difference
from amqproxy.replay.mocking.mock_connection import MockSettings
from tests.real.clients import Broker, aio_pika_client, amqplib_client, pika_client
from tests.real.rabbitmq import RabbitMQ
from tests.real.reports import capture
from tests.real.wire import Recorder
from tests.replay.mocking.local_mock import local_mock

pytestmark = pytest.mark.real

CLIENTS = {"pika": pika_client, "aio-pika": aio_pika_client, "amqplib": amqplib_client}
SCENARIOS = [
    "publish_consume",
    "confirms",
    "nack",
    "tx",
    "returns",
    "big_bodies",
    "many_channels",
    "queues",
    "blocked",
    "field_tables",
    "channel_error",
    "connection_error",
]
OTHER_EACH_TIME = {"big_bodies", "blocked"}
"""Scenarios of random bodies, and of publishes until something happens: no two runs are the same."""

RACING = {"publish_consume"}
"""Where the client closes with acknowledgements under way: which of them came before that is a matter of time."""

GENERATED = ("properties.message_id", "properties.timestamp")
"""Fields that aio-pika chooses anew for each message."""

SPEED = 20.0


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_it_serves(client: ModuleType, scenario: str, rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    play = getattr(client, scenario)
    with Recorder(rabbitmq.port) as recorder:
        play(Broker(recorder.port, rabbitmq.ctl))
        recorded = recorder.take()
    file = tmp_path / "recording.pcapng"
    file.write_bytes(capture(recorded))
    with local_mock(file, settings=MockSettings(speed=SPEED)) as mock, Recorder(mock.port) as recorder:
        play(Broker(recorder.port, lambda *_: ""))  # which has no knobs to turn: it does what was recorded
        played = tmp_path / "played.pcapng"
        played.write_bytes(capture(recorder.take()))
    assert len(mock.reports) == len(recorded)
    assert [each.unanswered for each in mock.reports] == [[]] * len(recorded)
    if scenario not in OTHER_EACH_TIME:
        assert [each.differences for each in mock.reports] == [[]] * len(recorded)
    if scenario not in OTHER_EACH_TIME | RACING:
        assert differences(file, played) == []


def differences(a: Path, b: Path) -> list[str]:
    """What `compare` finds in two captures."""
    with closing(CommandStore(ignored=GENERATED)) as one, closing(CommandStore(ignored=GENERATED)) as other:
        one.load(read_decoded(a))
        other.load(read_decoded(b))
        return [str(each) for each in compared(one, other) if isinstance(each, Difference)]
