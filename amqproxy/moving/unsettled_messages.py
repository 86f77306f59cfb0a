"""The window of a move: messages that were published to the target, and are neither confirmed nor acknowledged."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from amqproxy.amqp091.methods import BasicAck

MAX_MESSAGES = 256
"""Maximum of unsettled messages: the most that can be on both brokers after a failure."""

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of unsettled messages from which no further delivery is read; a single message may exceed it."""


class _Unsettled(NamedTuple):
    delivery_tag: int
    size: int


class UnsettledMessages:
    """Messages by the number of their publish, in order. Deliveries are added in the order of their delivery tags."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._messages: dict[int, _Unsettled] = {}
        self._bytes = 0
        self._last = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def has_room(self) -> bool:
        """Whether further deliveries may be read; their number is bounded by the consumer's prefetch."""
        return self._bytes < self._max_bytes

    def add(self, delivery_tag: int, size: int) -> None:
        """Note the publish of a delivery."""
        self._last += 1
        self._messages[self._last] = _Unsettled(delivery_tag, size)
        self._bytes += size

    def confirm(self, number: int, *, multiple: bool) -> list[BasicAck]:
        """Settle the publish with this number, or `multiple` up to it; return the acknowledgements of the deliveries.

        Numbers without an unsettled publish are ignored.
        """
        oldest = next(iter(self._messages), 0)
        taken = self.settle(number, multiple=multiple)
        if not taken:
            return []
        return [BasicAck(taken[-1], multiple=number == oldest or multiple)]

    def settle(self, number: int, *, multiple: bool) -> list[int]:
        """Like `confirm`, but return the delivery tags alone: of a channel with further deliveries, which stay."""
        if multiple:
            settled = list(takewhile(lambda each: each <= number, self._messages))
        else:
            settled = [number] if number in self._messages else []
        taken = [self._messages.pop(each) for each in settled]
        self._bytes -= sum(each.size for each in taken)
        return [each.delivery_tag for each in taken]
