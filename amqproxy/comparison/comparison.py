"""Comparison of two captures, command by command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from amqproxy.comparison.alignment import Item, aligned
from amqproxy.comparison.command_store import CommandStore, StoredChannel, StoredConnection
from amqproxy.comparison.connection_pairs import ConnectionPair, connection_pairs
from amqproxy.comparison.difference import Change, Difference, DifferenceKind, Place, body_changes, changes
from amqproxy.comparison.latencies import Latencies
from amqproxy.comparison.traced_command import CONNECTION, TracedCommand
from amqproxy.taps.record import encoded
from amqproxy.taps.text import value_text


class _Report(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="report"):
    def to_json(self) -> bytes:
        """Return one line of JSON, without the line's end."""
        return encoded(self)


class ComparedConnection(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A connection with its names in the records of `decode`, its client, and its number of commands."""

    stream: int
    connection: str
    name: str = ""
    user: str = ""
    virtual_host: str = ""
    commands: int = 0


class ConnectionsCompared(_Report, frozen=True, kw_only=True, tag="connection"):
    """Two connections that correspond, by `why`, or one without a counterpart. Their differences come next."""

    a: ComparedConnection | None = None
    b: ComparedConnection | None = None
    why: str


class LatencySummary(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Number of answered commands, and quantiles of their latency in seconds."""

    count: int
    p50: float
    p99: float


class LatenciesCompared(_Report, frozen=True, kw_only=True, tag="latency"):
    """Latencies of the commands of one kind in A and in B: from a method to its reply.

    A "basic.publish" lasts until its confirm or the end of its transaction; a "basic.deliver", which stands for every
    delivery, until its acknowledgement.
    """

    kind: str
    a: LatencySummary | None = None
    b: LatencySummary | None = None


class ComparisonSummary(_Report, frozen=True, kw_only=True, tag="summary"):
    """The last report. `is_same` means that none was found; `differences` counts them by kind.

    `omitted_connections` counts the connections beyond `MAX_CONNECTIONS` in both captures.
    """

    is_same: bool
    differences: dict[DifferenceKind, int]
    connections: dict[str, int]
    commands: dict[str, int]
    omitted_connections: int = 0


ComparisonReport: TypeAlias = ConnectionsCompared | Difference | LatenciesCompared | ComparisonSummary


def compared(a: CommandStore, b: CommandStore) -> Iterator[ComparisonReport]:
    """Yield the reports on how capture B differs from A, lazily."""
    counts: Counter[DifferenceKind] = Counter()
    for pair in connection_pairs(a.connections, b.connections):
        yield ConnectionsCompared(a=_described(pair.a), b=_described(pair.b), why=pair.why)
        for difference in _differences(a, b, pair):
            counts[difference.kind] += 1
            yield difference
    for kind in sorted(a.latencies.keys() | b.latencies.keys()):
        yield LatenciesCompared(kind=kind, a=_summary(a.latencies.get(kind)), b=_summary(b.latencies.get(kind)))
    omitted = a.omitted + b.omitted
    yield ComparisonSummary(
        is_same=not counts and not omitted,
        differences={kind: counts[kind] for kind in DifferenceKind},
        connections={"a": len(a.connections), "b": len(b.connections)},
        commands={"a": a.commands, "b": b.commands},
        omitted_connections=omitted,
    )


def _described(connection: StoredConnection | None) -> ComparedConnection | None:
    if connection is None:
        return None
    name, user, virtual_host = connection.identity or ("", "", "")
    return ComparedConnection(
        stream=connection.stream,
        connection=connection.connection,
        name=name,
        user=user,
        virtual_host=virtual_host,
        commands=connection.commands,
    )


def _summary(latencies: Latencies | None) -> LatencySummary | None:
    if latencies is None:
        return None
    return LatencySummary(
        count=latencies.count, p50=latencies.quantile(0.5) or 0.0, p99=latencies.quantile(0.99) or 0.0
    )


def _differences(a: CommandStore, b: CommandStore, pair: ConnectionPair) -> Iterator[Difference]:
    if pair.a is None or pair.b is None:
        found = pair.a or pair.b
        assert found is not None
        place = _place(found, found.ts_ns)
        yield Difference(
            kind=DifferenceKind.EXTRA if pair.a is None else DifferenceKind.MISSING,
            type="connection",
            what=_connection_text(found),
            a=None if pair.a is None else place,
            b=None if pair.b is None else place,
        )
        return
    for _, left, right in aligned(a.channels(pair.a.stream), b.channels(pair.b.stream)):
        one = None if left is None else a.channel(left.ref)
        other = None if right is None else b.channel(right.ref)
        if one is not None and other is not None:
            yield from _channel_differences(_Sides(a, pair.a, one), _Sides(b, pair.b, other))
        elif one is not None:
            yield _missing_channel(DifferenceKind.MISSING, one, a=_place(pair.a, one.ts_ns, one.number))
        elif other is not None:
            yield _missing_channel(DifferenceKind.EXTRA, other, b=_place(pair.b, other.ts_ns, other.number))


class _Sides:
    """One of the two channels of a comparison."""

    __slots__ = ("connection", "number", "store", "tracks")

    def __init__(self, store: CommandStore, connection: StoredConnection, channel: StoredChannel) -> None:
        self.store = store
        self.connection = connection
        self.number = channel.number
        self.tracks = store.tracks(channel.id)

    def place(self, command: TracedCommand) -> Place:
        return _place(self.connection, command.ts_ns, self.number)


def _channel_differences(one: _Sides, other: _Sides) -> Iterator[Difference]:
    for name in (*one.tracks, *(each for each in other.tracks if each not in one.tracks)):
        ours, theirs = one.tracks.get(name), other.tracks.get(name)
        for kind, a, b in aligned(_items(one.store, ours), _items(other.store, theirs)):
            if kind is None:
                continue
            before = None if a is None else one.store.command(a.ref)
            after = None if b is None else other.store.command(b.ref)
            command = before or after
            assert command is not None
            yield Difference(
                kind=kind,
                type=command.type,
                what=command.what,
                method=command.method,
                a=None if before is None else one.place(before),
                b=None if after is None else other.place(after),
                changes=command_changes(before, after) if kind is DifferenceKind.CHANGED and before and after else (),
            )


def _items(store: CommandStore, track: int | None) -> Iterable[Item]:
    return () if track is None else store.items(track)


def command_changes(before: TracedCommand, after: TracedCommand) -> tuple[Change, ...]:
    """Return the fields in which two commands differ."""
    found = changes({"method": before.method, **before.fields}, {"method": after.method, **after.fields})
    if before.size != after.size:
        found += changes({"size": before.size}, {"size": after.size})
    if not (before.digest and after.digest):  # one of the bodies was not captured completely
        found += _captured_changes(before, after)
    elif before.digest != after.digest:
        is_whole = len(before.body) == before.size and len(after.body) == after.size
        found += body_changes(before.body, after.body, is_whole=is_whole)
    return tuple(found)


def _captured_changes(before: TracedCommand, after: TracedCommand) -> list[Change]:
    """Return where two bodies differ in their captured parts, and the captured sizes if those differ."""
    most = min(len(before.body), len(after.body))
    found = body_changes(before.body[:most], after.body[:most])
    if len(before.body) != len(after.body):
        found += changes(len(before.body), len(after.body), "captured")
    return found


def _place(connection: StoredConnection, ts_ns: int, channel: int = CONNECTION) -> Place:
    return Place(
        ts_ns=ts_ns,
        stream=connection.stream,
        connection=connection.connection,
        channel=None if channel == CONNECTION else channel,
    )


def _connection_text(connection: StoredConnection) -> str:
    identity = connection.identity
    who = "" if identity is None else f" of {value_text(identity.name or identity.user)}"
    return f"connection{who}, {_commands(connection.commands)}"


def _missing_channel(
    kind: DifferenceKind, channel: StoredChannel, a: Place | None = None, b: Place | None = None
) -> Difference:
    name = "the connection itself" if channel.number == CONNECTION else f"channel {channel.number}"
    what = f"{name}, {_commands(channel.commands)}"
    return Difference(kind=kind, type="channel", what=what, a=a, b=b)


def _commands(count: int) -> str:
    return f"{count} command{'' if count == 1 else 's'}"
