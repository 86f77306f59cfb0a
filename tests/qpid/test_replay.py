"""Captures of AMQP 0-10, played against Qpid Broker-J."""

from __future__ import annotations

import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.replay_copy import AT_ONCE
from tests.amqp010.recorded import FOLDER
from tests.qpid.broker_j import BrokerJ
from tests.replay.playing import played, texts

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.once]


@pytest.mark.parametrize(
    ("name", "clients", "speed"),
    [("types", 1, 20.0), ("tx", 2, AT_ONCE), ("errors", 1, AT_ONCE)],
)
def test_what_broker_j_has_said_it_says_again(broker_j: BrokerJ, name: str, clients: int, speed: float) -> None:
    path = FOLDER / f"brokerj9.2__jms-010-{name}.pcapng.gz"
    url = f"amqp://guest:guest@127.0.0.1:{broker_j.port}/test"
    result = played(steps_of(read_decoded(path)), url, clients=clients, speed=speed)
    assert texts(result) == []
    assert result.answers > 25
