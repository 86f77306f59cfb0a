"""What finds one kind of thing in the events of a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.activity import Activity
from amqproxy.taps.trace.event_queue import Listener
from amqproxy.taps.trace.handshake_facts import HandshakeFacts
from amqproxy.taps.trace.open_tags import Span


class ObservedChannel(Protocol):
    """What a detector may know of a channel, or of the session on it, beside its events."""

    @property
    def knows_start(self) -> bool:
        """Were all frames since it was opened seen?"""

    @property
    def unacked(self) -> int:
        """How many deliveries are open."""

    @property
    def oldest_unacked(self) -> Span | None:
        """The oldest deliveries that are open."""

    def is_unacked(self, tag: int) -> bool:
        """Is the delivery with that tag open?"""

    def queue_of(self, consumer_tag: str) -> str | None:
        """The queue of a consumer, if it is known."""


class ObservedTrace(Protocol):
    """The trace of a connection, of either protocol."""

    @property
    def channels(self) -> Mapping[int, ObservedChannel]:
        """Those that the client has open, by their numbers."""

    @property
    def reopened_channels(self) -> list[int]:
        """Channels that the broker has closed, and that the client has opened again without channel.close-ok."""

    @property
    def facts(self) -> HandshakeFacts:
        """What the handshake has shown."""

    @property
    def activity(self) -> Activity:
        """When each peer has sent anything."""

    def listen(self, listener: Listener) -> None:
        """Show events to `listener` after each frame."""


class ObservedConnection(NamedTuple):
    """The connection whose events a detector is given: its trace, and whether it is encrypted, if that is known."""

    trace: ObservedTrace
    is_tls: bool | None = None
    address: str = ""
    """The client's, without its port."""


class Overdue(NamedTuple):
    """A finding due by time alone: when (nanoseconds since 1970), on which channel if on one, and its text."""

    ts_ns: int
    channel: int | None
    text: str


NEVER = 1 << 63
"""A time in nanoseconds that does not come."""

Handler = Callable[[Any, Any], str | None]
H = TypeVar("H", bound=Callable[..., object])


def on(*events: type[Any]) -> Callable[[H], H]:
    """Marks a method of a detector as what is given events of these types."""

    def mark(method: H) -> H:
        method.events = events  # type: ignore[attr-defined]
        return method

    return mark


class Detector:
    """Finds one kind of thing on one connection.

    A subclass names its `kind`, how bad it is, why it matters and what to do. Its methods that are marked by `on` are
    given events after the trace has taken them, and return what was seen, or None. One that waits for something not to
    happen sets `due_ns`, and has a `look`. All that a detector remembers must be bounded.
    """

    kind: ClassVar[str]
    severity: ClassVar[Severity]
    why: ClassVar[str]
    remedy: ClassVar[str]
    handlers: ClassVar[Mapping[type[Any], Handler]]

    due_ns = NEVER
    """When it wants to look again, at the latest before the next event after that."""

    def __init_subclass__(cls) -> None:
        cls.handlers = {event: each for each in vars(cls).values() for event in getattr(each, "events", ())}

    def __init__(self, observed: ObservedConnection) -> None:
        self.observed = observed

    def look(self, now_ns: int) -> Iterable[Overdue]:
        """What has become overdue; sets `due_ns` anew."""
        self.due_ns = NEVER
        return ()
