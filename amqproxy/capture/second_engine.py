"""Interface of an external program that assists in reading a capture, implemented by `amqproxy.tshark`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from amqproxy.capture.pcap import Packet
from amqproxy.capture.stream_events import Event


class SecondEngine(Protocol):
    """Reads other link layers and encrypted streams; its results may be late, but stay in order."""

    def packets(self, packets: Iterator[Packet]) -> Iterator[Packet]:
        """Convert packets of unknown link types to IP packets, beginning with the first such packet of a file."""

    def add_secrets(self, key_log: bytes) -> None:
        """Add secrets of TLS sessions found in the capture."""

    @property
    def is_decrypting(self) -> bool:
        """Whether TLS secrets are known, so that events have to pass through `feed`."""

    def feed(self, events: Iterable[Event]) -> Iterable[Event]:
        """Add events of TCP streams, and return those that are ready, in order."""

    def finish(self) -> Iterable[Event]:
        """Return the remaining events at the end of the capture."""
