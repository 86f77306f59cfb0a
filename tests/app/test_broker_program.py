"""A broker by itself, as a program: what it counts, and what it may not record."""

from pathlib import Path

import pytest

from amqproxy import __version__
from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.app.broker_program import count_broker, export, recorded_by_broker
from amqproxy.broker.broker import Broker
from amqproxy.configuration.config import RecordConfig
from amqproxy.taps.metrics import Metrics


def test_it_records_the_one_leg_that_it_has() -> None:
    assert recorded_by_broker(RecordConfig(directory="d")).legs == "client"
    with pytest.raises(ValueError, match=r"^\.legs: "):
        recorded_by_broker(RecordConfig(directory="d", legs="upstream"))
    with pytest.raises(ValueError, match=r"^\.when_full: "):
        recorded_by_broker(RecordConfig(directory="d", when_full="wait"))


def test_what_is_connected_is_counted() -> None:
    metrics = Metrics()
    count_broker(Broker(__version__), metrics)
    assert metrics.registry.get_sample_value("amqproxy_connections") == 0


async def test_definitions_of_no_broker(tmp_path: Path) -> None:
    with pytest.raises(AddressUnavailable, match="does not contain a broker's data"):
        await export(tmp_path)
