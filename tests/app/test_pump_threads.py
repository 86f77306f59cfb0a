"""Which config has pumps."""

import pytest
from structlog.testing import capture_logs

from amqproxy.app import pump_threads
from amqproxy.app.pump_threads import open_pumps
from amqproxy.config import Config
from amqproxy.pump.pumps import are_available
from amqproxy.taps.metrics import Metrics


@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
def test_as_many_as_are_configured() -> None:
    with open_pumps(Config(threads=2), Metrics()) as pumps:
        assert pumps is not None
        assert len(pumps._pumps) == 2


@pytest.mark.parametrize("config", [Config(threads=0), Config(upstream="broker")], ids=["not wanted", "broker"])
def test_none(config: Config) -> None:
    with capture_logs() as log, open_pumps(config, Metrics()) as pumps:
        assert pumps is None
    assert log == []


def test_none_where_they_cannot_be_and_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_threads, "are_available", lambda: False)
    with capture_logs() as log, open_pumps(Config(threads=2), Metrics()) as pumps:
        assert pumps is None
    assert [line["event"] for line in log] == ["no pumps"]


@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
def test_connections_change_owner_all_the_time_where_a_test_wants_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pump_threads.TEST_MODE, "5")
    with open_pumps(Config(threads=1), Metrics()) as pumps:
        assert pumps is not None
        assert (pumps.first_chunks, pumps.most_chunks) == (1, 1)
