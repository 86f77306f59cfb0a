"""Dispatches the broker's events to observers, as they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple


class BrokerEvent(NamedTuple):
    """`name` is RabbitMQ's name for it where it has one (queue.created), `subject` what it happened to (a `Queue`, a
    `Message`, …), `details` its other fields.
    """

    name: str
    vhost: str
    subject: Any
    details: dict[str, Any]


Observer = Callable[[BrokerEvent], None]


class EventDispatcher:
    """The observers. Where there are none, an event costs one look at `observers`: check that before calling `report`.

    `recorders` are notified of definitions only: for these, ask `is_recorded`. `on_failure` is called with each failure
    that the model contains, as `supervision.report` is: what happened, the exception, and the fields of one log line.
    `failures` counts them. `on_log` is given each line that the model has for the log: its level, what happened, the
    address of the client that it is about, and the other fields.
    """

    __slots__ = ("failures", "observers", "on_failure", "on_log", "recorders")

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self.recorders: list[Observer] = []
        self.on_failure: Callable[..., None] = lambda event, failure, **fields: None
        self.on_log: Callable[..., None] = lambda level, event, address, **fields: None
        self.failures = 0

    @property
    def is_recorded(self) -> bool:
        """Is there an observer of definitions?"""
        return bool(self.observers or self.recorders)

    def report(self, name: str, vhost: str, subject: Any, **details: Any) -> None:
        """Notify all observers; an observer that raises is its own trouble."""
        event = BrokerEvent(name, vhost, subject, details)
        for observer in (*self.observers, *self.recorders):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001
                self.fail("observer failed", error, of=name)

    @contextmanager
    def contained(self, event: str, **fields: Any) -> Iterator[None]:
        """Let an exception raised inside cost what is done inside, and one line in the log: the model's own door."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.fail(event, error, **fields)

    def fail(self, event: str, failure: Exception, **fields: Any) -> None:
        """Report a failure that is contained."""
        self.failures += 1
        with suppress(Exception):  # a failing log must not harm the caller
            self.on_failure(event, failure, **fields)

    def log(self, level: str, event: str, address: str = "", **fields: Any) -> None:
        """Write a line to the log."""
        with suppress(Exception):  # a failing log must not harm the caller
            self.on_log(level, event, address, **fields)
