"""Counts of the pools of an upstream group."""

from __future__ import annotations

from collections import Counter

from amqproxy.proxy.amqp091.pools.sharing import PinReason


class PoolCounts:
    """Counts since the start: `pins` by reason; `collateral` clients have lost a connection by another's error."""

    def __init__(self) -> None:
        self.clients = 0
        self.opened = 0
        self.exhausted = 0
        self.collateral = 0
        self.revoked = 0
        self.pins: Counter[str] = Counter(dict.fromkeys(PinReason, 0))
