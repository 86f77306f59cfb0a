"""Messages that a run has published and may get again from the queue that it passes through."""

from __future__ import annotations

from collections import Counter

from amqproxy.amqp091.properties import Properties
from amqproxy.workbench.held_message import HeldMessage, digest_of

MAX_COPIES = 1_000_000
"""Maximum of copies that are known; beyond it the oldest ones are forgotten."""


class OwnCopies:
    """Published messages by their digest.

    A queue with priorities puts an edited message in front of those of lower priority, so that the same run gets it.
    """

    def __init__(self) -> None:
        self._digests: Counter[bytes] = Counter()

    def note(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> None:
        """Note a message before it is published."""
        self._digests[digest_of(exchange, routing_key, properties, body)] += 1
        if len(self._digests) > MAX_COPIES:
            del self._digests[next(iter(self._digests))]

    def meet(self, message: HeldMessage) -> bool:
        """Whether a message is one of the copies, each of which is met once."""
        if not self._digests or message.is_redelivered:
            return False
        digest = message.digest
        if self._digests[digest] <= 0:
            return False
        self._digests[digest] -= 1
        if not self._digests[digest]:
            del self._digests[digest]
        return True
