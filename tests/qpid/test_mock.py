"""The Qpid JMS client gets from a mock what it got from Broker-J when that was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.replay.mocking.mock_connection import MockSettings
from tests.qpid.broker_j import BrokerJ, run_scenarios
from tests.real.reports import capture
from tests.real.wire import Recorder
from tests.replay.mocking.local_mock import local_mock

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.once]

SCENARIOS = (
    "properties",
    "request-reply",
    "two-consumers",
    "no-queue",
    "selector",
    "tx-commit",
    "recover",
    "dtx-recover",
)
SPEED = 20.0


def test_it_serves_the_jms_client(broker_j: BrokerJ, tmp_path: Path) -> None:
    with Recorder(broker_j.port) as recorder:
        results = run_scenarios(recorder.port, *SCENARIOS)
        assert set(results.values()) == {"ok"}
        recorded = recorder.take()
    file = tmp_path / "recording.pcapng"
    file.write_bytes(capture(recorded))
    with local_mock(file, settings=MockSettings(speed=SPEED)) as mock:
        assert {name: result for name, result in run_scenarios(mock.port, *SCENARIOS).items() if result != "ok"} == {}
    assert [each.unanswered for each in mock.reports] == [[]] * len(recorded)
    assert [str(each) for report in mock.reports for each in report.differences] == []
