"""The same scenarios for every client library: each module has one function a scenario.

A scenario takes a `Broker`, works on its `port` (RabbitMQ's own or the proxy's), and raises where the broker's
behaviour is not what the library's user would see without a proxy.
"""

from collections.abc import Callable
from dataclasses import dataclass

Scenario = Callable[["Broker"], None]

BIG = 10_000_000
"""Bytes of a body that takes many frames."""

CHANNELS = 200
MESSAGES = 100


@dataclass(frozen=True)
class Broker:
    """Where a scenario connects to, and how it turns the broker's knobs."""

    port: int
    ctl: Callable[..., str]

    def block(self) -> None:
        """Makes the broker block publishers, as it does when memory runs out."""
        self.ctl("set_vm_memory_high_watermark", "0")

    def unblock(self) -> None:
        self.ctl("set_vm_memory_high_watermark", "0.4")
