"""Counts the messages of one session of AMQP 0-10."""

from __future__ import annotations

import time

from amqproxy.peer import SERVER, Peer
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained
from amqproxy.proxy.amqp010.client_observer import Amqp010ClientObserver
from amqproxy.taps.metering.amqp010.meter import Amqp010Meter, AttachmentMeter
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.topology.observed_topology import ObservedTopology


class Amqp010SessionMeter:
    """An `Amqp010Meter` if messages are counted, until it fails: then nothing of the session is counted any more.

    `number` and `name` are the session's. With a `topology`, an `observer` has it know what the client declares.
    """

    __slots__ = ("_meter", "_name", "_number", "observer")

    def __init__(self, metrics: Metrics, number: int, name: str, topology: ObservedTopology | None = None) -> None:
        self.observer: Amqp010ClientObserver | None = None
        if metrics.messages is not None and topology is not None:
            self.observer = Amqp010ClientObserver(topology, number, name)
        self._meter = None if metrics.messages is None else Amqp010Meter(metrics.messages, self.observer)
        self._number = number
        self._name = name

    def feed(self, is_server: bool, data: bytes | memoryview, now: float, is_cut: bool = False) -> None:
        """Count what a peer has sent, as the meter takes it."""
        if self._meter is not None:
            try:
                self._meter.feed(is_server, data, now, is_cut)
            except Exception as failure:  # noqa: BLE001 - what counts is no trouble to what is counted
                self._lose(failure)

    def saw(self, sender: Peer, data: bytes | memoryview) -> None:
        """Count what a peer has just sent."""
        self.feed(sender is SERVER, data, time.perf_counter())

    def attachment(self, channel: int) -> AttachmentMeter | None:
        """What is open in the session on a channel, if that is counted and there is one."""
        return None if self._meter is None else self._meter.session(channel)

    @property
    def is_lost(self) -> bool:
        """Is nothing counted?"""
        return self._meter is None

    def close(self) -> None:
        """The session is over, or cannot be read any more."""
        meter, self._meter = self._meter, None
        if meter is not None:
            meter.close()

    def _lose(self, failure: Exception) -> None:
        meter, self._meter = self._meter, None
        log = logger().bind(session=self._number, client=self._name.partition("-")[0])
        with contained("messages not counted", log=log):
            if meter is not None:
                meter.close()
            raise failure
