"""Counts of the messages of all connections, by outcome."""

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
"""Bounds of latencies, in seconds."""

BYTES = tuple(4.0**power for power in range(3, 15))
"""Bounds of body sizes: 64 bytes to 256 MiB."""


class Count(IntEnum):
    """Counters and gauges by their index in `MessageCounts.values`: the last three are gauges, all others counters."""

    PUBLISHED = 0
    CONFIRMED = 1
    NACKED = 2
    """Publishes refused by the broker."""
    RETURNED = 3
    DELIVERED = 4
    """Sent to a consumer, or got with basic.get."""
    REDELIVERED = 5
    """Delivered messages marked as redelivered."""
    AUTO_ACKED = 6
    """Delivered messages that need no acknowledgement."""
    ACKED = 7
    REJECTED = 8
    """Deliveries refused by the client with basic.reject or basic.nack, without requeue."""
    REQUEUED = 9
    """Deliveries given back by the client: rejected with requeue, or recovered."""
    UNTIMED = 10
    """Messages settled without a latency, since too many were open to keep their times."""
    UNCONFIRMED = 11
    UNACKED = 12
    CONSUMERS = 13


@cython.final
@cython.cclass
class MessageCounts:
    """Counts of all meters of a process.

    `values` has a number for each `Count`. The distributions are of seconds from a publish to its confirm or nack,
    and from a delivery to its settlement, and of body sizes in bytes; `requests` are of seconds from a request to its
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
        """Count a reply to `method`, a name of the protocol, so that there are few."""
        distribution = self.requests.get(method)
        if distribution is None:
            distribution = self.requests[method] = Distribution(SECONDS)
        distribution.observe(seconds)
