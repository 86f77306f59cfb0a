"""Counts the messages of one session, whether its relays or a pump have them."""

from __future__ import annotations

from amqproxy.process.log import logger
from amqproxy.process.supervision import contained
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter


class SessionMeter:
    """A `MessageMeter`, until it fails: then it is None, and nothing of the session is counted any more.

    `number` and `name` are the session's, for the log.
    """

    __slots__ = ("_name", "_number", "meter")

    def __init__(self, meter: MessageMeter, number: int, name: str) -> None:
        self.meter: MessageMeter | None = meter
        self._number = number
        self._name = name

    def feed(self, is_server: bool, data: bytes | memoryview, now: float, is_cut: bool = False) -> None:
        """Count what a peer has sent, as the meter takes it."""
        if self.meter is not None:
            try:
                self.meter.feed(is_server, data, now, is_cut)
            except Exception as failure:  # noqa: BLE001 - what counts is no trouble to what is counted
                self._lose(failure)

    def close(self) -> None:
        """The session is over."""
        if self.meter is not None:
            self.meter.close()

    def _lose(self, failure: Exception) -> None:
        meter, self.meter = self.meter, None
        log = logger().bind(session=self._number, client=self._name.partition("-")[0])
        with contained("messages not counted", log=log):
            if meter is not None:
                meter.close()
            raise failure
