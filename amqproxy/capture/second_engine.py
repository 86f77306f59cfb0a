"""What another program may do for the reading of a capture: `amqproxy.tshark` has the one there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from amqproxy.capture.pcap import Packet
from amqproxy.capture.stream_events import Event


class SecondEngine(Protocol):
    """Reads link layers that we do not, and what is encrypted. It may be late with that, but keeps the order."""

    def packets(self, packets: Iterator[Packet]) -> Iterator[Packet]:
        """Packets of one file, from one of an unknown link type on: such packets as IP packets."""

    def add_secrets(self, key_log: bytes) -> None:
        """Take secrets of TLS sessions that are in the capture."""

    @property
    def is_decrypting(self) -> bool:
        """Whether events have to be fed, since there are secrets."""

    def feed(self, events: Iterable[Event]) -> Iterable[Event]:
        """What is known now of events of TCP streams, and of those before them."""

    def finish(self) -> Iterable[Event]:
        """What is left at the end of the capture."""
