"""Detector of one kind of finding in the events of a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.activity import Activity
from amqproxy.taps.trace.event_queue import Listener
from amqproxy.taps.trace.handshake_facts import HandshakeFacts
from amqproxy.taps.trace.open_tags import Span


class ObservedChannel(Protocol):
    """Facts about a channel, or the session on it, that a detector may use besides its events."""

    @property
    def knows_start(self) -> bool:
        """Whether all frames since it was opened were seen."""

    @property
    def has_forgotten(self) -> bool:
        """Whether more messages may be open than those that are known."""

    @property
    def unacked(self) -> int:
        """Number of open deliveries."""

    @property
    def oldest_unacked(self) -> Span | None:
        """The range of the oldest open delivery."""

    def is_unacked(self, tag: int) -> bool:
        """Return whether the delivery with this tag is open."""

    def queue_of(self, consumer_tag: str) -> str | None:
        """Return the queue of a consumer; `None` if it is unknown."""


class ObservedTrace(Protocol):
    """The trace of a connection, of either protocol."""

    @property
    def channels(self) -> Mapping[int, ObservedChannel]:
        """The client's open channels, by number."""

    @property
    def reopened_channels(self) -> list[int]:
        """Numbers of channels that the broker has closed and the client has reopened without channel.close-ok."""

    @property
    def facts(self) -> HandshakeFacts:
        """Facts that the handshake has shown."""

    @property
    def activity(self) -> Activity:
        """Times of the peers' last frames."""

    def listen(self, listener: Listener) -> None:
        """Show events to `listener` after each frame."""


class ObservedConnection(NamedTuple):
    """Connection whose events a detector is given: its trace, and whether it is encrypted, if that is known."""

    trace: ObservedTrace
    is_tls: bool | None = None
    address: str = ""
    """Address of the client, without its port."""


class Overdue(NamedTuple):
    """A finding due by time alone: its time (nanoseconds since 1970), its channel, if any, and its text."""

    ts_ns: int
    channel: int | None
    text: str


NEVER = 1 << 63
"""Time in nanoseconds that is never reached."""

Handler = Callable[[Any, Any], str | None]
H = TypeVar("H", bound=Callable[..., object])


def on(*events: type[Any]) -> Callable[[H], H]:
    """Mark a method of a detector as the handler of events of these types."""

    def mark(method: H) -> H:
        method.events = events  # type: ignore[attr-defined]
        return method

    return mark


class Detector:
    """Detector of one kind of finding on one connection.

    A subclass defines its `kind`, its severity, why it matters and a remedy. Its methods that are marked by `on` are
    given events after the trace has taken them, and return the text of a finding, or `None`. A detector that waits for
    an event to be absent sets `due_ns`, and has a `look`. The memory of a detector must be bounded.
    """

    kind: ClassVar[str]
    severity: ClassVar[Severity]
    why: ClassVar[str]
    remedy: ClassVar[str]
    handlers: ClassVar[Mapping[type[Any], Handler]] = {}
    is_counted_by_text: ClassVar[bool] = False
    """Whether findings are counted by their text, which names a queue or an exchange, and not all together."""

    due_ns = NEVER
    """Time at which `look` is due; it is called at the latest before the next event after that."""

    def __init_subclass__(cls) -> None:
        own = {event: each for each in vars(cls).values() for event in getattr(each, "events", ())}
        cls.handlers = {**cls.handlers, **own}

    def __init__(self, observed: ObservedConnection) -> None:
        self.observed = observed

    def look(self, now_ns: int) -> Iterable[Overdue]:
        """Return overdue findings, and set the next `due_ns`."""
        self.due_ns = NEVER
        return ()
