"""Verdicts on methods that may fail hard, from trials on a connection without other clients."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, auto
from hashlib import sha256
from typing import NamedTuple

from amqproxy.amqp091.methods import ChannelClose, ConnectionClose, Method

PROVEN_FOR = 60.0
"""Seconds for which a method that the broker has answered may be sent on a shared connection."""

HARD_FOR = 600.0
"""Seconds for which a method that has closed a connection is not tried again."""

MOST_KNOWN = 10_000
"""Largest number of methods that are remembered."""


class Verdict(Enum):
    """Verdict on a method with its arguments."""

    UNKNOWN = auto()
    PROVEN = auto()
    HARD = auto()


class Answer(NamedTuple):
    """The broker's answer to a method: its reply, or its close of the channel or of the connection.

    All are `None` for a method without a reply.
    """

    reply: Method | None = None
    channel_close: ChannelClose | None = None
    connection_close: ConnectionClose | None = None


class RequestProofs:
    """The verdicts on methods, by their payloads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[Verdict, float]] = OrderedDict()

    def verdict(self, request: bytes) -> Verdict:
        found = self._known.get(_digest(request))
        if found is None or self._clock() >= found[1]:
            return Verdict.UNKNOWN
        return found[0]

    def note(self, request: bytes, answer: Answer) -> None:
        """Remember what an answer shows."""
        digest = _digest(request)
        self._known.pop(digest, None)
        if answer.connection_close is not None:
            self._known[digest] = Verdict.HARD, self._clock() + HARD_FOR
        elif answer.channel_close is None:
            self._known[digest] = Verdict.PROVEN, self._clock() + PROVEN_FOR
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def _digest(request: bytes) -> bytes:
    """Return the digest by which a method is remembered, whose arguments may be as large as a frame."""
    return sha256(request).digest()
