"""A client's subscription to a queue (section 10.2, message.subscribe)."""

from __future__ import annotations

from amqproxy.amqp010.credit import Credit


class Subscription:
    """A subscription, as long as messages may come from it.

    `modes` are the accept and the acquire mode of its messages, `credit` is the server's credit. A cancelled
    subscription may send messages until its message.cancel is complete, after which it `is_over`; meanwhile another one
    with the same destination may exist, whose `former` it then is.
    """

    __slots__ = ("credit", "destination", "former", "is_cancelled", "is_over", "modes", "queue")

    def __init__(self, destination: str, queue: str, modes: tuple[int, int]) -> None:
        self.destination = destination
        self.queue = queue
        self.modes = modes
        self.credit = Credit()
        self.is_cancelled = False
        self.is_over = False
        self.former: Subscription | None = None

    @property
    def current(self) -> Subscription:
        """Return the subscription whose messages come now: the former one until its end."""
        found, former = self, self.former
        while former is not None:
            if not former.is_over:
                found = former
            former = former.former
        if found is self:
            self.former = None
        return found
