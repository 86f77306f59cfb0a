"""Detector of one kind of finding in the events of all connections together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from amqproxy.taps.findings.finding import RecordNumber, Severity


class ConnectionPlace(NamedTuple):
    """A connection among all: its number, its name, and the client's address without its port."""

    stream: int
    name: str
    address: str = ""


class Sighting(NamedTuple):
    """A finding on one connection; `times` counts the findings about the same client or queue.

    `ts_ns` is its time, if that is not the time of the event.
    """

    connection: ConnectionPlace
    channel: int | None
    text: str
    evidence: tuple[RecordNumber, ...]
    times: int = 1
    ts_ns: int | None = None


ProcessHandler = Callable[[Any, ConnectionPlace, Any, RecordNumber | None], list[Sighting] | None]


class ProcessDetector:
    """Detector of one kind of finding that no single connection shows.

    A subclass is like one of `Detector`; its methods that are marked by `on` are given the connection, the event, and
    the record that has completed it, if there is one, whose `stream` is the connection's. They return sightings, or
    `None`. The memory of a detector must be bounded.
    """

    kind: ClassVar[str]
    severity: ClassVar[Severity]
    why: ClassVar[str]
    remedy: ClassVar[str]
    handlers: ClassVar[Mapping[type[Any], ProcessHandler]]

    def __init_subclass__(cls) -> None:
        cls.handlers = {event: each for each in vars(cls).values() for event in getattr(each, "events", ())}

    def look(self, now_ns: int) -> list[Sighting]:
        """Return the sightings that are due by the passage of time alone."""
        return []
