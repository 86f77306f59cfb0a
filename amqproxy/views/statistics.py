"""Counts and measurements of captures: the JSON contract of `--stats`."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.taps.record import encoded


class SideCount(msgspec.Struct, frozen=True, kw_only=True):
    """Traffic of one side: its `frames`, the `heartbeats` among them, and their `bytes`."""

    frames: int
    heartbeats: int
    bytes: int


class MessageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Messages by their outcome.

    Of the publishes, `sent` need no answer; others were `confirmed` or `nacked` by the broker, `committed` or
    `rolled_back` with their transaction. `returned` counts basic.return. Of the deliveries, which are those of
    basic.deliver and of basic.get (`got`), some were `redelivered`; `auto_acked` need no acknowledgement, and `browsed`
    stay in their queue; others were `acked`, or `rejected` by basic.nack or basic.reject, or given back by
    basic.recover (`recovered`); `requeued` are those of the rejected and recovered that the queue gets back. At the end
    of their channel, some were `open_publishes` or `open_deliveries`; of the `unknown` it could not be observed.
    `unknown_tags` are acknowledgements and confirms of what was not open.
    """

    published: int
    sent: int
    confirmed: int
    nacked: int
    committed: int
    rolled_back: int
    returned: int
    delivered: int
    got: int
    redelivered: int
    auto_acked: int
    browsed: int
    acked: int
    rejected: int
    recovered: int
    requeued: int
    open_publishes: int
    open_deliveries: int
    unknown: int
    unknown_tags: int


class Interval(msgspec.Struct, frozen=True):
    """Number of values up to `up_to`, and above that of the previous interval; null means no upper bound."""

    up_to: float | None
    count: int


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Values: how many, and of these the `least`, the `most`, the `mean`, and percentiles, which are exact to 10 %."""

    count: int
    least: float
    mean: float
    most: float
    p50: float
    p90: float
    p99: float
    p999: float
    intervals: list[Interval]


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: from a publish to its confirm or nack, from a delivery to its ack, nack or reject, from the protocol
    header of the client to connection.open-ok, and from each request to its reply, by the request's method. What was
    not measured is absent.
    """

    publish_to_confirm: Measured | msgspec.UnsetType = msgspec.UNSET
    delivery_to_ack: Measured | msgspec.UnsetType = msgspec.UNSET
    connection_to_open: Measured | msgspec.UnsetType = msgspec.UNSET
    requests: dict[str, Measured]


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the bodies of what was published and delivered. What was not is absent."""

    published: Measured | msgspec.UnsetType = msgspec.UNSET
    delivered: Measured | msgspec.UnsetType = msgspec.UNSET


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """A second, over the whole time, and at most: in the busiest interval of the timeline."""

    published: float
    delivered: float
    bytes: float
    most_published: float
    most_delivered: float
    most_bytes: float


class TimelineReport(msgspec.Struct, frozen=True, kw_only=True):
    """Messages published and delivered, and bytes relayed, in each interval of `seconds`.

    The first begins at `start_ns`, in nanoseconds since 1970.
    """

    start_ns: int
    seconds: float
    published: list[int]
    delivered: list[int]
    bytes: list[int]


class TopConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection, or a user with all its connections: what passed, in both directions. `name` is null for a user who
    was not seen to log in. See `TopConnections` about `error`.
    """

    name: str | None
    bytes: int
    error: int
    frames: int
    published: int
    delivered: int


class TopConnections(msgspec.Struct, frozen=True, kw_only=True):
    """The connections or users with the most bytes; not `is_exact` if there were too many to count each.

    Then `bytes` may be too large, by at most `error`, and the other numbers are since it was last taken up.
    """

    is_exact: bool
    top: list[TopConnection]


class TopName(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange, a queue or a routing key, with its messages. See `TopNames` about `error`."""

    name: Any
    messages: int
    error: int
    bytes: int


class TopNames(msgspec.Struct, frozen=True, kw_only=True):
    """The objects with the most messages; not `is_exact` if there were too many to count each.

    Then `messages` may be too large, by at most `error`, and `bytes` are since it was last taken up.
    """

    is_exact: bool
    top: list[TopName]


class Top(msgspec.Struct, frozen=True, kw_only=True):
    """The busiest objects. Exchanges and routing keys are those of publishes, queues those of deliveries."""

    connections: TopConnections
    users: TopConnections
    exchanges: TopNames
    routing_keys: TopNames
    queues: TopNames


class ErrorCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of errors of one kind: "connection-closed", "channel-closed", "connection-lost", "returned", "nacked",
    "unknown-tag", "unanswered" (`text` is then the method), "unreadable", or "other" for what does not fit into the
    table. `by` is "client", "server", "proxy" or null; `code` the reply code; `text` the reason without what is
    different each time.
    """

    kind: str
    by: str | None
    code: int | None
    text: str
    count: int


class FindingCount(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of finding, how often it was seen, and on how many connections. See docs/findings.md."""

    kind: str
    severity: str
    count: int
    connections: int


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of captures: `amqproxy decode --stats --json`.

    `start_ns` and `end_ns` are when the first and the last frame passed, in nanoseconds since 1970, and `seconds` the
    time between. `frames` are of each side; `lost_bytes` could not be read, or were not captured. `findings` is absent
    where only some commands are looked at.
    """

    start_ns: int | None
    end_ns: int | None
    seconds: float
    connections: int
    frames: dict[str, SideCount]
    lost_bytes: int
    messages: MessageTotals
    rates: Rates
    timeline: TimelineReport
    latencies: Latencies
    sizes: Sizes
    top: Top
    errors: list[ErrorCount]
    findings: list[FindingCount] | msgspec.UnsetType = msgspec.UNSET

    def to_json(self) -> bytes:
        """Return one line of JSON, without a line end."""
        return encoded(self)
