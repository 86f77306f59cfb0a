"""What is counted of a connection of the broker's that speaks 0-10."""

from __future__ import annotations

from amqproxy.amqp010.controls import ConnectionClose
from amqproxy.amqp010.errors import FramingError
from amqproxy.broker.server.amqp010.reading import Amqp010Reading
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.metrics import Metrics
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, FAILURE, LOGIN, MESSAGES, Step, method


class Counted:
    def __init__(self, *, counts_messages: bool = True) -> None:
        self.metrics = Metrics(counts_messages=counts_messages)
        self._reading = Amqp010Reading(self.metrics)
        assert self._reading.meter is not None
        self.meter = self._reading.meter

    def play(self, *steps: Step) -> None:
        for sender, step in steps:
            _, data = self._reading.take_header(step) if sender is SERVER else (b"", step.removeprefix(LOGIN[0][1]))
            self._reading.read(sender, data)
            self._reading.count(sender, 1.0)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"amqproxy_{name}", labels) or 0


def test_connections_sessions_and_messages() -> None:
    counted = Counted()
    counted.play(*LOGIN, *ATTACH, *MESSAGES)
    assert counted.count("connections_opened_total") == 1
    assert counted.count("channels_opened_total") == 1
    assert counted.count("messages_published_total") == 3
    attachment = counted.meter.channel(1)
    assert attachment is not None
    assert attachment.delivered == 4
    counted.play(*DETACH, *ATTACH, *FAILURE, *CLOSE)
    assert counted.count("channel_closes_total", by="client", code="200") == 1
    assert counted.count("channel_closes_total", by="server", code="404") == 1
    counted.meter.close()
    assert counted.count("connection_closes_total", by="client", code="200") == 1


def test_a_refused_login() -> None:
    counted = Counted()
    counted.play(*LOGIN[:3], (SERVER, method(ConnectionClose(320, "no"), 0)))
    counted.meter.close()
    assert counted.count("authentication_failures_total") == 1
    assert counted.count("connection_closes_total", by="server", code="320") == 1


def test_violations_and_no_messages() -> None:
    counted = Counted(counts_messages=False)
    counted.play(*LOGIN, *ATTACH, *MESSAGES)
    assert counted.meter.channel(1) is None
    counted.meter.count_violation(CLIENT, FramingError("no frame"))
    assert counted.count("protocol_errors_total", sender="client", code="501") == 1
    counted.meter.lose()
    counted.meter.close()
    assert counted.count("connection_closes_total", by="client", code="none") == 1
