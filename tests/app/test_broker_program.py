"""A broker by itself, as a program: what it counts, and what it may not record."""

import sys
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from amqproxy import __version__
from amqproxy.app import broker_program
from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.app.broker_program import count_broker, export, recorded_by_broker, run_broker
from amqproxy.app.management_process import ManagementProcess
from amqproxy.broker.broker import Broker
from amqproxy.configuration.config import (
    BrokerConfig,
    Config,
    ControlConfig,
    ListenerConfig,
    ManagementConfig,
    RecordConfig,
)
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


@pytest.mark.parametrize("observer", ["management", "control"])
async def test_a_management_api_alone_has_no_bytes_read_twice(
    observer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages would cost twice as much."""
    counted: list[object] = []
    monkeypatch.setattr(broker_program, "count_broker", lambda broker, metrics: counted.append(broker))
    monkeypatch.setattr(ManagementProcess, "command", (sys.executable, "-c", "import sys; sys.stdin.read()"))
    management = ManagementConfig(listen="127.0.0.1:0") if observer == "management" else None
    broker = BrokerConfig(listen=(ListenerConfig(address="127.0.0.1:0"),), management=management)
    control = ControlConfig(path=str(tmp_path / "control")) if observer == "control" else None
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_broker, Config(broker=broker, control=control))
            with trio.fail_after(30):
                while not any(each["event"] == "listening" for each in log):  # noqa: ASYNC110
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert bool(counted) is (observer == "control")
