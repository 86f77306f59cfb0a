"""Everything that happens in a broker, as it happens, for whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Event(NamedTuple):
    """`name` is RabbitMQ's name for it where it has one (queue.created), `subject` what it happened to (a `Queue`, a
    `Message`, …), `details` what else there is to say.
    """

    name: str
    vhost: str
    subject: Any
    details: dict[str, Any]


Observer = Callable[[Event], None]


class Events:
    """Who listens. Where nobody does, an event costs one look at `observers`: ask that before calling `report`.

    `keepers` want to hear of definitions only: for these, ask `is_kept`.
    """

    __slots__ = ("keepers", "observers")

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self.keepers: list[Observer] = []

    @property
    def is_kept(self) -> bool:
        """Does anybody want to hear of definitions?"""
        return bool(self.observers or self.keepers)

    def report(self, name: str, vhost: str, subject: Any, **details: Any) -> None:
        """Tell everybody. An observer must not raise."""
        event = Event(name, vhost, subject, details)
        for observer in self.observers:
            observer(event)
        for keeper in self.keepers:
            keeper(event)
