"""Dispatch of the broker's events to observers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from amqproxy.broker.churn import Churn


class BrokerEvent(NamedTuple):
    """An event of the broker.

    `name` is RabbitMQ's name of the event, if it has one (queue.created), `subject` the affected object (a `Queue`, a
    `Message`, …), and `details` the other fields.
    """

    name: str
    vhost: str
    subject: Any
    details: dict[str, Any]


Observer = Callable[[BrokerEvent], None]


class EventDispatcher:
    """The observers of a broker's events; check `observers` before calling `report`: unobserved events must be cheap.

    `recorders` are notified of definitions only: for those events, check `is_recorded`. `on_failure` is called with
    each failure that the model contains, with the arguments of `supervision.report`: the event, the exception, and the
    fields of one log line. `failures` counts them. `on_log` is called with each log line of the model: its level, the
    event, the address of the client concerned, and the other fields.
    `churn` counts connections, channels and queues.
    """

    __slots__ = ("churn", "failures", "observers", "on_failure", "on_log", "recorders")

    def __init__(self) -> None:
        self.observers: list[Observer] = []
        self.recorders: list[Observer] = []
        self.on_failure: Callable[..., None] = lambda event, failure, **fields: None
        self.on_log: Callable[..., None] = lambda level, event, address, **fields: None
        self.failures = 0
        self.churn = Churn()

    @property
    def is_recorded(self) -> bool:
        """Whether definitions have an observer."""
        return bool(self.observers or self.recorders)

    def report(self, name: str, vhost: str, subject: Any, **details: Any) -> None:
        """Notify all observers; an exception of an observer is contained and reported."""
        event = BrokerEvent(name, vhost, subject, details)
        for observer in (*self.observers, *self.recorders):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001
                self.fail("observer failed", error, of=name)

    @contextmanager
    def contained(self, event: str, **fields: Any) -> Iterator[None]:
        """Contain an exception raised inside: it ends only this block and is reported in one log line."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.fail(event, error, **fields)

    def fail(self, event: str, failure: Exception, **fields: Any) -> None:
        """Count and report a contained failure."""
        self.failures += 1
        with suppress(Exception):  # a failing log must not harm the caller
            self.on_failure(event, failure, **fields)

    def log(self, level: str, event: str, address: str = "", **fields: Any) -> None:
        """Write a line to the log."""
        with suppress(Exception):  # a failing log must not harm the caller
            self.on_log(level, event, address, **fields)
