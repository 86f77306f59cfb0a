"""The message meter of one session, used by its relays or a pump."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from amqproxy.process.log import logger
from amqproxy.process.supervision import contained


class Meter(Protocol):
    """A counter of messages in the bytes that a client sends and is sent."""

    def feed(self, is_server: bool, data: bytes | memoryview, now: float, is_cut: bool = False) -> None:
        """Count the messages in a chunk of a peer."""

    def close(self) -> None:
        """Count deliveries, channels and other open state as ended."""


MeterT = TypeVar("MeterT", bound=Meter)


class SessionMeter(Generic[MeterT]):
    """A `meter` that is dropped (`None`) when it fails, after which the session's messages are not counted.

    `number` and `name` identify the session in the log.
    """

    __slots__ = ("_name", "_number", "meter")

    def __init__(self, meter: MeterT | None, number: int, name: str) -> None:
        self.meter = meter
        self._number = number
        self._name = name

    @property
    def is_lost(self) -> bool:
        """Whether messages are not counted any more."""
        return self.meter is None

    def feed(self, is_server: bool, data: bytes | memoryview, now: float, is_cut: bool = False) -> None:
        """Count the messages in a chunk of a peer; a failure drops the meter."""
        if self.meter is not None:
            try:
                self.meter.feed(is_server, data, now, is_cut)
            except Exception as failure:
                log = logger().bind(session=self._number, client=self._name.partition("-")[0])
                with contained("messages not counted", log=log):
                    self.close()
                    raise failure

    def close(self) -> None:
        """Close and drop the meter: the session is over, or cannot be read any more."""
        meter, self.meter = self.meter, None
        if meter is not None:
            meter.close()
