"""State shared by the parts of one session's trace: its channel, mode, epoch, limits of knowledge, and events."""

from __future__ import annotations

from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.taps.trace.budget import Budgets
from amqproxy.taps.trace.events import TraceEvent


class SessionContext:
    """The facts about one attachment on which the claims of all its parts depend.

    `number` is the channel. `knows_start` is whether all frames since the session was new were seen; `is_unread`
    whether the server no longer reads what the client sends; `has_forgotten` whether open transfers were forgotten.
    `mode` is `None` while unknown. Events are appended to `events`.
    """

    __slots__ = ("budgets", "epoch", "events", "has_forgotten", "is_unread", "knows_start", "mode", "number")

    def __init__(
        self, number: int, events: list[TraceEvent], budgets: Budgets, *, knows_start: bool, epoch: int
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.events = events
        self.budgets = budgets
        self.knows_start = knows_start
        self.is_unread = False
        self.has_forgotten = False
        self.mode: TransactionMode | None = TransactionMode.NONE if knows_start else None

    def lose(self) -> None:
        """Reset the facts that depend on frames which were missed."""
        self.knows_start = False
        self.is_unread = False
        self.mode = None
