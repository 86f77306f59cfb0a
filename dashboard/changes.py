"""Changes: the last minutes of a source compared with as many minutes some time before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dashboard.minutes import MINUTE_NS, Minute, Minutes, Name, NameKind

SPAN = 5
"""Minutes that are compared with each other."""

LEAST_MESSAGES = 10
"""Messages that a name has to have in one of the spans for its rate to be compared."""

FACTOR = 1.5
"""Factor by which a rate has to grow or fall to be a change."""

MOST = 30
"""Maximum number of names of each kind of change."""


class Figure(msgspec.Struct, frozen=True):
    """A rate per second, a latency in seconds or a number, in both spans; `None` where it is not known."""

    name: str
    now: float | None
    then: float | None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A name that appeared, that is gone or silent, or whose rate changed; rates are messages per second.

    `at_ns` is the beginning of the minute in which it appeared, or was last seen.
    """

    kind: NameKind
    name: str
    within: str
    now: float
    then: float
    at_ns: int | None = None


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in nanoseconds since 1970. `then_ns` is `None` if nothing was seen before the present span.

    Unless `is_asked`, traffic began later than the time that was asked for, and its first minutes are compared. Unless
    `is_whole`, some traffic was not seen, and names without traffic are not listed as gone.
    """

    now_ns: tuple[int, int]
    then_ns: tuple[int, int] | None = None
    is_asked: bool = True
    is_whole: bool = True
    figures: Sequence[Figure] = ()
    appeared: Sequence[Change] = ()
    gone: Sequence[Change] = ()
    rates: Sequence[Change] = ()
    findings: Sequence[str] = ()
    """Kinds of findings that were first made since."""


def changes(
    minutes: Minutes,
    now_ns: int,
    ago: int,
    open_clients: frozenset[Name],
    joined_clients: frozenset[Name],
) -> Changes:
    """Compare the last `SPAN` minutes with those `ago` minutes before.

    `joined_clients` were connected before they were seen.
    """
    end = now_ns // MINUTE_NS + 1
    start = end - SPAN
    first = minutes.first
    now = (start * MINUTE_NS, now_ns)
    if first is None or first >= end - 1:
        return Changes(now_ns=now)
    wanted = start - ago
    then_start = max(first, wanted)
    then_end = min(then_start + SPAN, end - 1)
    start = max(start, then_end)
    before, after = minutes.total(then_start, then_end), minutes.total(start, end)
    history = minutes.total(first, then_end)
    since = list(minutes.between(then_end, end))
    spans = (_seconds(then_end * MINUTE_NS, then_start), _seconds(now_ns, start))
    is_whole = before.is_whole and after.is_whole
    rates = [_change(name, before, after, spans) for name in before.names.keys() | after.names.keys()]
    appeared = _appeared(history, since, joined_clients, open_clients)
    return Changes(
        now_ns=(start * MINUTE_NS, now_ns),
        then_ns=(then_start * MINUTE_NS, then_end * MINUTE_NS),
        is_asked=wanted >= first,
        is_whole=is_whole,
        figures=list(_figures(before, after, spans)),
        appeared=[_change(name, before, after, spans, at_ns) for name, at_ns in appeared.items()][:MOST],
        gone=[
            _change(name, before, after, spans, at_ns)
            for name, at_ns in _gone(before, after, since, then_end, open_clients, is_whole=is_whole)
        ][:MOST],
        rates=sorted((each for each in rates if is_whole and _has_changed(each, spans)), key=_factor, reverse=True)[
            :MOST
        ],
        findings=[kind for kind, at_ns in minutes.first_kinds.items() if at_ns >= then_end * MINUTE_NS],
    )


def _seconds(until_ns: int, first: int) -> float:
    return max(1.0, until_ns / 1e9 - first * 60)


def _figures(before: Minute, after: Minute, spans: tuple[float, float]) -> Iterator[Figure]:
    for name in ("published", "delivered", "errors", "nacked", "returned"):
        then, now = [
            minute.counts[name] / (minute.seconds or span) if name in minute.counts else None
            for minute, span in zip((before, after), spans, strict=True)
        ]
        yield Figure(name, now, then)
    yield Figure("connections", after.connections, before.connections)
    yield Figure("confirm_p99", after.confirm.percentile(0.99), before.confirm.percentile(0.99))
    yield Figure("ack_p99", after.ack.percentile(0.99), before.ack.percentile(0.99))
    yield Figure("transit_p99", after.transit.percentile(0.99), before.transit.percentile(0.99))
    yield Figure("findings", after.kinds.total(), before.kinds.total())


def _change(name: Name, before: Minute, after: Minute, spans: tuple[float, float], at_ns: int | None = None) -> Change:
    then, now = before.names[name] / spans[0], after.names[name] / spans[1]
    return Change(kind=name.kind, name=name.name, within=name.within, now=now, then=then, at_ns=at_ns)


def _appeared(
    history: Minute, since: Sequence[tuple[int, Minute]], joined: frozenset[Name], open_clients: frozenset[Name]
) -> dict[Name, int]:
    """Return the names that are known since a minute only, with the beginning of that minute; the newest first."""
    found: dict[Name, int] = {}
    known = history.names.keys() | history.clients | joined
    for place, minute in since:
        for name in sorted(minute.names.keys() | minute.clients):
            if name not in known:
                found.setdefault(name, place * MINUTE_NS)
    for name in sorted(open_clients - known - found.keys()):
        found[name] = since[-1][0] * MINUTE_NS if since else 0
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _gone(
    before: Minute,
    after: Minute,
    since: Sequence[tuple[int, Minute]],
    then_end: int,
    open_clients: frozenset[Name],
    *,
    is_whole: bool,
) -> Iterator[tuple[Name, int]]:
    """Yield the names that were there, and are no longer, with the minute in which they were last seen."""
    last = since[-1][1] if since else Minute()
    for name in sorted(before.names.keys() | before.clients):
        if name.kind == "client":
            if name in open_clients or name in last.clients or name in last.names:
                continue
        elif name in after.names or not is_whole:
            continue
        seen = [place for place, minute in since if name in minute.names or name in minute.clients]
        yield name, (seen[-1] if seen else then_end - 1) * MINUTE_NS


def _has_changed(change: Change, spans: tuple[float, float]) -> bool:
    most = max(change.then * spans[0], change.now * spans[1])
    return bool(change.then and change.now) and most >= LEAST_MESSAGES and _factor(change) >= FACTOR


def _factor(change: Change) -> float:
    """Return the factor by which a rate grew or fell."""
    return max(change.now / change.then, change.then / change.now)
