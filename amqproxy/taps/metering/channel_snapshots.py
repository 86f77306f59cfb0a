"""Snapshots of one connection's channels, within the limits of the whole connection, for all protocols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Protocol

from amqproxy.taps.topology.client_requests import ChannelView
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import (
    MAX_CONSUMERS,
    MAX_SPANS,
    MAX_SPANS_OF_CHANNEL,
    ChannelSnapshot,
    ConsumerSnapshot,
    known_text,
    spans_up_to,
)


class OpenMessagesOfChannel(Protocol):
    """The meter of a channel, or of an attached session."""

    @property
    def unconfirmed(self) -> int: ...

    @property
    def unacked(self) -> int: ...

    @property
    def has_forgotten(self) -> bool: ...

    def open_publishes(self, most: int, offset_ns: int) -> tuple[Span, ...]: ...

    def open_deliveries(self, most: int, offset_ns: int) -> tuple[Span, ...]: ...


class ChannelSnapshots(ABC):
    """Maker of the snapshots of one connection's channels, with the numbers and tags of the client.

    `views` are the client's observed requests. `offset_ns` is added to the meter's times. Channels are read one by one,
    so that a connection with very many of them takes no long turn: no frame may pass in between.
    """

    __slots__ = ("_consumers_left", "_offset_ns", "_spans_left", "_views")

    def __init__(self, views: Mapping[int, ChannelView], offset_ns: int) -> None:
        self._views = views
        self._offset_ns = offset_ns
        self._spans_left = MAX_SPANS
        self._consumers_left = MAX_CONSUMERS

    @abstractmethod
    def __iter__(self) -> Iterator[ChannelSnapshot]:
        """Yield the state of each channel that is open or closing."""

    def _open_messages(
        self, metered: OpenMessagesOfChannel, published: int
    ) -> tuple[tuple[Span, ...], tuple[Span, ...], bool]:
        """Return the open publishes up to the last one shown, the open deliveries, and whether these are all."""
        if not (metered.unconfirmed or metered.unacked):
            return (), (), not metered.has_forgotten
        most, offset_ns = min(MAX_SPANS_OF_CHANNEL, self._spans_left), self._offset_ns
        unconfirmed, unacked = metered.open_publishes(most, offset_ns), metered.open_deliveries(most, offset_ns)
        self._spans_left -= len(unconfirmed) + len(unacked)
        is_complete = _count(unconfirmed) == metered.unconfirmed and _count(unacked) == metered.unacked
        return tuple(spans_up_to(published, unconfirmed)), unacked, is_complete and not metered.has_forgotten

    def _consumer(self, tag: str, queue: str | None, *, no_ack: bool, exclusive: bool) -> ConsumerSnapshot | None:
        """Return a consumer; `None` if its tag cannot be shown, or if there are too many."""
        shown = known_text(tag)
        if shown is None or self._consumers_left <= 0:
            return None
        self._consumers_left -= 1
        return ConsumerSnapshot(tag=shown, queue=known_text(queue), no_ack=no_ack, exclusive=exclusive)


def _count(spans: tuple[Span, ...]) -> int:
    return sum([span.count for span in spans])
