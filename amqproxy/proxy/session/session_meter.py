"""Counts the messages of one session, whether its relays or a pump have them."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from amqproxy.process.log import logger
from amqproxy.process.supervision import contained


class Meter(Protocol):
    """Counts messages in the bytes that a client sends, and is sent."""

    def feed(self, is_server: bool, data: bytes | memoryview, now: float, is_cut: bool = False) -> None:
        """Count what a peer has sent."""

    def close(self) -> None:
        """Count what is open as over."""


MeterT = TypeVar("MeterT", bound=Meter)


class SessionMeter(Generic[MeterT]):
    """A `meter`, until it fails: then it is None, and nothing of the session is counted any more.

    `number` and `name` are the session's, for the log.
    """

    __slots__ = ("_name", "_number", "meter")

    def __init__(self, meter: MeterT | None, number: int, name: str) -> None:
        self.meter = meter
        self._number = number
        self._name = name

    @property
    def is_lost(self) -> bool:
        """Whether nothing is counted."""
        return self.meter is None

    def feed(self, is_server: bool, data: bytes | memoryview, now: float, is_cut: bool = False) -> None:
        """Count what a peer has sent, as the meter takes it."""
        if self.meter is not None:
            try:
                self.meter.feed(is_server, data, now, is_cut)
            except Exception as failure:
                log = logger().bind(session=self._number, client=self._name.partition("-")[0])
                with contained("messages not counted", log=log):
                    self.close()
                    raise failure

    def close(self) -> None:
        """Count nothing more: the session is over, or cannot be read any more."""
        meter, self.meter = self.meter, None
        if meter is not None:
            meter.close()
