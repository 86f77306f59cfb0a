"""The message meter of one 0-10 session."""

from __future__ import annotations

import time

from amqproxy.peer import SERVER, Peer
from amqproxy.proxy.amqp010.client_observer import Amqp010ClientObserver
from amqproxy.proxy.session.session_meter import SessionMeter
from amqproxy.taps.metering.amqp010.meter import Amqp010Meter, AttachmentMeter
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.topology.observed_topology import ObservedTopology


class Amqp010SessionMeter(SessionMeter[Amqp010Meter]):
    """An `Amqp010Meter`, if messages are counted, until it fails.

    With a `topology`, it reports the client's declarations to an `observer`.
    """

    __slots__ = ("observer",)

    def __init__(self, metrics: Metrics, number: int, name: str, topology: ObservedTopology | None = None) -> None:
        self.observer: Amqp010ClientObserver | None = None
        if metrics.messages is not None and topology is not None:
            self.observer = Amqp010ClientObserver(topology, number, name)
        meter = None if metrics.messages is None else Amqp010Meter(metrics.messages, self.observer)
        super().__init__(meter, number, name)

    def saw(self, sender: Peer, data: bytes | memoryview) -> None:
        """Count the messages in bytes that a peer has just sent."""
        self.feed(sender is SERVER, data, time.perf_counter())

    def attachment(self, channel: int) -> AttachmentMeter | None:
        """Return the meter of the session on a channel; `None` if there is none or messages are not counted."""
        return None if self.meter is None else self.meter.session(channel)
