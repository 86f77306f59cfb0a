"""What became of the messages of all connections, counted."""

from __future__ import annotations

from array import array
from enum import IntEnum

from amqproxy.taps.metering.distribution import Distribution

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

SECONDS = (
    50e-6,
    100e-6,
    250e-6,
    500e-6,
    1e-3,
    2.5e-3,
    5e-3,
    10e-3,
    25e-3,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
"""The bounds of latencies."""

BYTES = tuple(4.0**power for power in range(3, 15))
"""The bounds of the sizes of bodies: 64 bytes to 256 MiB."""


class Count(IntEnum):
    """What is counted, by its place in `MessageCounts.values`: the last three of now, all others since the start."""

    PUBLISHED = 0
    CONFIRMED = 1
    NACKED = 2
    """By the broker."""
    RETURNED = 3
    DELIVERED = 4
    """Sent to a consumer, or got with basic.get."""
    REDELIVERED = 5
    """Of the delivered: those marked as such."""
    AUTO_ACKED = 6
    """Of the delivered: those that need no acknowledgement."""
    ACKED = 7
    REJECTED = 8
    """By the client, with basic.reject or basic.nack, for good."""
    REQUEUED = 9
    """By the client: rejected, to be delivered again, or recovered."""
    UNTIMED = 10
    """Settled, and it is not known how long they were open, since too many were."""
    UNCONFIRMED = 11
    UNACKED = 12
    CONSUMERS = 13


@cython.final
@cython.cclass
class MessageCounts:
    """What all meters of a process have counted.

    `values` has a number for each `Count`. The distributions are of seconds from a publish to its confirm or nack,
    from a delivery to its settlement, and of bytes of the bodies; `requests` are of seconds from a request to its
    reply, by the request's method.
    """

    def __init__(self) -> None:
        self.values = array("q", bytes(8 * len(Count)))
        self._values = self.values
        self.confirm_seconds = Distribution(SECONDS)
        self.ack_seconds = Distribution(SECONDS)
        self.published_bytes = Distribution(BYTES)
        self.delivered_bytes = Distribution(BYTES)
        self.requests: dict[str, Distribution] = {}

    def observe_request(self, method: str, seconds: float) -> None:
        """Count a reply to `method`, of which there are as many as the protocol has."""
        distribution = self.requests.get(method)
        if distribution is None:
            distribution = self.requests[method] = Distribution(SECONDS)
        distribution.observe(seconds)
