"""OpenTelemetry as a proxy has it: from the frames of a session to an exporter."""

from __future__ import annotations

import trio
import trio.testing
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ChannelOpenOk, ConfirmSelect
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.configuration.config import Limits, OpenTelemetryConfig
from amqproxy.taps.metrics import Metrics
from amqproxy.telemetry.telemetry import RELIEF_INTERVAL, Telemetry
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of


class Proxy:
    """A session under telemetry, with a publish that is not confirmed."""

    def __init__(self, **limits: int) -> None:
        self.exporter = InMemorySpanExporter()
        self.metrics = Metrics()
        self.telemetry = Telemetry(
            OpenTelemetryConfig(metrics=False),
            Limits(**limits),
            self.metrics,
            upstream="broker",
            exporter=self.exporter,
        )
        self.session = Session()
        self.telemetry.start()
        tap = self.telemetry.tap
        tap.saw_protocol_header(self.session, HEADER)
        for sender, method in ((CLIENT, ChannelOpen()), (SERVER, ChannelOpenOk()), (CLIENT, ConfirmSelect())):
            tap.saw_frames(self.session, sender, frames_of(1, method))
        self.publish()

    def publish(self) -> None:
        self.telemetry.tap.saw_frames(self.session, CLIENT, frames_of(1, BasicPublish(exchange="e")))

    def outcomes(self) -> list[object]:
        return [(each.attributes or {})["amqproxy.outcome"] for each in self.exporter.get_finished_spans()]

    def dropped(self) -> float | None:
        return self.metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "opentelemetry"})


async def test_the_end_exports_what_waits() -> None:
    proxy = Proxy()
    proxy.telemetry.tap.saw_end(proxy.session, "over")
    await proxy.telemetry.finish()
    assert proxy.outcomes() == ["open"]
    assert proxy.dropped() == 0


async def test_what_there_is_no_room_for_is_counted() -> None:
    proxy = Proxy(opentelemetry_spans=2)
    proxy.publish()
    proxy.telemetry.tap.saw_end(proxy.session, "over")
    await proxy.telemetry.finish()
    assert (len(proxy.outcomes()), proxy.dropped()) == (1, 1)


async def test_the_traces_are_relieved_now_and_then(autojump_clock: trio.testing.MockClock) -> None:
    proxy = Proxy(opentelemetry_memory=1)
    assert proxy.dropped() == 1
    with trio.move_on_after(1.5 * RELIEF_INTERVAL):
        await proxy.telemetry.run()
    assert not any(channel.unconfirmed for channel in _channels(proxy))
    await proxy.telemetry.finish()


def _channels(proxy: Proxy) -> list[object]:
    (traced,) = proxy.telemetry.tap._sessions.values()
    assert traced is not None
    return list(traced.trace.channels.values())
