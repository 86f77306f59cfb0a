"""Counts the messages of one session of AMQP 0-10."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.frame import Frame, every_frame
from amqproxy.log import logger
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.supervision import contained
from amqproxy.taps.metering.amqp010_meter import AMQP010Meter, AttachmentMeter
from amqproxy.taps.metrics import Metrics


class AMQP010SessionMeter:
    """An `AMQP010Meter` if messages are counted, until it fails: then nothing of the session is counted any more.

    `number` and `name` are the session's, for the log.
    """

    __slots__ = ("_meter", "_name", "_number")

    def __init__(self, metrics: Metrics, number: int, name: str) -> None:
        self._meter = None if metrics.messages is None else AMQP010Meter(metrics.messages)
        self._number = number
        self._name = name

    def feed(self, sender: Peer, frames: Sequence[Frame], command_ids: Sequence[int | None]) -> None:
        """Count what a peer has sent."""
        if self._meter is not None:
            try:
                self._meter.feed(sender, frames, command_ids, time.perf_counter())
            except Exception as failure:  # noqa: BLE001 - what counts is no trouble to what is counted
                self._lose(failure)

    def feed_pumped(
        self, numberings: Mapping[Peer, CommandNumbering], is_server: bool, data: memoryview, now: float, is_cut: bool
    ) -> None:
        """Count what a pump has passed on, as its journal has it: `numberings` are those by then."""
        sender = SERVER if is_server else CLIENT
        if self._meter is not None:
            try:
                frames = every_frame(bytes(data), is_cut)
                self._meter.feed(sender, frames, numberings[sender].numbers(frames), now)
            except Exception as failure:  # noqa: BLE001 - what counts is no trouble to what is counted
                self._lose(failure)

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
