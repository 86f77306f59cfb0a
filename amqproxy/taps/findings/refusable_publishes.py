"""Publishes that the broker may still refuse, and the queues for which they were counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from amqproxy.taps.trace.open_tags import Span

REFUSAL_NS = 10_000_000_000
"""Time in nanoseconds after which an unrefused publish without confirms counts as accepted by the broker."""

MAX_PUBLISHES = 20_000
"""Limit on the remembered publishes of all channels."""

MAX_OF_CHANNEL = 1_000
"""Limit on the remembered publishes of one channel, the last ones."""

ChannelKey = tuple[int, int]
"""The number of a connection, and of a channel on it."""

QueueKey = tuple[str, str]
"""A virtual host, and the name of a queue in it."""


class RefusablePublish(NamedTuple):
    """A publish: its time, the queues for which it was counted, and whether it awaits a confirm."""

    ts_ns: int
    queues: Sequence[QueueKey]
    awaits: bool


class RefusablePublishes:
    """Publishes of each channel by number, the oldest first, with an index of the channels by connection."""

    def __init__(self) -> None:
        self._streams: dict[int, dict[ChannelKey, dict[int, RefusablePublish]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, channel: ChannelKey, number: int, publish: RefusablePublish) -> None:
        """Remember a publish, and forget older ones that can no longer be refused, or exceed the limits."""
        channels = self._streams.setdefault(channel[0], {})
        known = channels.setdefault(channel, {})
        while known:
            oldest = next(iter(known))
            is_taken = not known[oldest].awaits and publish.ts_ns - known[oldest].ts_ns > REFUSAL_NS
            if not is_taken and len(known) < MAX_OF_CHANNEL and self._count < MAX_PUBLISHES:
                break
            del known[oldest]
            self._count -= 1
        if self._count < MAX_PUBLISHES:
            self._count += number not in known
            known[number] = publish
        if not known:
            self._take(channel)

    def settle(self, channel: ChannelKey, spans: Iterable[Span]) -> list[QueueKey]:
        """Forget the publishes in these ranges; return the queues for which they were counted, once per publish."""
        known = self._streams.get(channel[0], {}).get(channel)
        if known is None:
            return []
        numbers = [number for span in spans for number in span.among(known) if number in known]
        return list(self._forget(channel, known, numbers))

    def refuse(self, channel: ChannelKey, ts_ns: int) -> list[QueueKey]:
        """Forget a channel that the broker has closed for a publish; return the queues of those it may have refused.

        It is not certain which publish was refused, and the broker has accepted none of those after it.
        """
        known = self._take(channel)
        late = [each for each in known.values() if each.awaits or ts_ns - each.ts_ns <= REFUSAL_NS]
        return [queue for each in late for queue in each.queues]

    def channels_of(self, stream: int) -> list[ChannelKey]:
        """Return the channels of a connection."""
        return list(self._streams.get(stream, ()))

    def forget(self, channel: ChannelKey) -> None:
        """Forget a closed channel."""
        self._take(channel)

    def _take(self, channel: ChannelKey) -> dict[int, RefusablePublish]:
        """Forget and return the publishes of a channel."""
        channels = self._streams.get(channel[0], {})
        known = channels.pop(channel, {})
        if not channels:
            self._streams.pop(channel[0], None)
        self._count -= len(known)
        return known

    def _forget(
        self, channel: ChannelKey, known: dict[int, RefusablePublish], numbers: Iterable[int]
    ) -> Iterator[QueueKey]:
        for number in numbers:
            self._count -= 1
            yield from known.pop(number).queues
        if not known:
            self._take(channel)
