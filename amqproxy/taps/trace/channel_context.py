"""State shared by the parts of a channel's trace: its number, mode, epoch, limits of knowledge, and events."""

from __future__ import annotations

from typing import Generic, TypeVar

from amqproxy.taps.trace.budget import Budgets
from amqproxy.taps.trace.events import TraceEvent

M = TypeVar("M")


class ChannelContext(Generic[M]):
    """The facts about one channel, or one session on it, on which the claims of all its parts depend.

    Events are appended to `events`. `knows_start` is whether all frames since the channel was new were seen, or its
    state is known from a snapshot (`is_restored`), `knows_client` whether those of the client were: enough for what
    the client alone determines, such as the mode, the numbers of its publishes, and its consumers. `is_unread` is
    whether the broker no longer reads what the client sends, since the channel or the connection is closing;
    `may_be_unread` whether a missed frame of the broker may have closed the channel, until a later frame shows that
    none did. `has_forgotten` is whether open messages were forgotten, so that a tag which is not open may still be
    known to the broker. `mode` is `None` while it is unknown, and `normal` on a new channel. `epoch` counts the
    openings of its `number`, from 1; 0 if the channel was open before the first frame. `place` is both. `is_lagging` is
    whether the client may have sent its next frames before missed ones of the broker, which may be their answers: the
    two directions of a capture have no common order. For the same reason, missed frames of the client may have settled
    deliveries that are seen until `settled_until_ns`.
    """

    __slots__ = (
        "budgets",
        "epoch",
        "events",
        "has_forgotten",
        "is_lagging",
        "is_restored",
        "is_unread",
        "knows_client",
        "knows_start",
        "may_be_unread",
        "mode",
        "normal",
        "number",
        "place",
        "settled_until_ns",
    )

    def __init__(
        self,
        number: int,
        events: list[TraceEvent],
        budgets: Budgets,
        normal: M,
        *,
        knows_start: bool,
        epoch: int = 0,
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.place = number, epoch
        self.events = events
        self.budgets = budgets
        self.knows_start = self.knows_client = knows_start
        self.is_unread = False
        self.may_be_unread = not knows_start
        self.has_forgotten = False
        self.is_lagging = False
        self.settled_until_ns = 0
        self.is_restored = False
        self.normal = normal
        self.mode: M | None = normal if knows_start else None

    @property
    def is_read(self) -> bool:
        """Whether the mode is known, and the broker reads what the client sends, unless the channel is closing."""
        return self.knows_client and not self.may_be_unread

    def select_mode(self, mode: M) -> bool:
        """Switch to the mode that the client asks for; return `False` if the broker will refuse to switch."""
        if self.mode is not self.normal:
            return False
        self.mode = mode
        return True

    def learn_mode(self, mode: M) -> None:
        """Set the mode if it was unknown: the broker has sent a method that only a channel in this mode gets."""
        if self.mode is None:
            self.mode = mode

    def lose(self) -> None:
        """Reset the facts that depend on frames which were missed."""
        self.knows_start = self.knows_client = False
        self.is_unread = False
        self.may_be_unread = True
        self.mode = None

    def lose_client(self) -> None:
        """Reset the facts that depend on frames of the client which were missed, while all of the broker were seen."""
        may_be_unread = self.may_be_unread
        self.lose()
        self.may_be_unread = may_be_unread

    def lose_broker(self) -> None:
        """Reset the facts that depend on frames of the broker which were missed, while all of the client were seen."""
        self.knows_start = False
        self.may_be_unread = True
