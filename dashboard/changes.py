"""Changes: the last minutes of a source compared with as many minutes some time before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from amqproxy.dashboard.minutes import MINUTE_NS, Minute, Minutes, Name, NameKind, Seen

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
    `is_whole`, some traffic was not seen, and names without traffic are not listed as gone. Unless it `has_all_names`,
    there were too many to know which are new or gone.
    """

    now_ns: tuple[int, int]
    then_ns: tuple[int, int] | None = None
    is_asked: bool = True
    is_whole: bool = True
    has_all_names: bool = True
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
    spans = (_seconds(then_end * MINUTE_NS, then_start), _seconds(now_ns, start))
    is_whole = before.is_whole and after.is_whole
    has_all_names = minutes.forgotten < then_start
    seen = minutes.seen if has_all_names else {}
    appeared = _appeared(seen, then_end, end, joined_clients, open_clients if has_all_names else frozenset())
    newest = max((place for place, _ in minutes.between(then_end, end)), default=end)
    gone = _gone(seen, (then_start, then_end), start, newest, open_clients, is_whole=is_whole)
    has_rates = is_whole and before.counts_all and after.counts_all
    rates = [_change(name, before, after, spans) for name in before.names.keys() | after.names.keys()]
    return Changes(
        now_ns=(start * MINUTE_NS, now_ns),
        then_ns=(then_start * MINUTE_NS, then_end * MINUTE_NS),
        is_asked=wanted >= first,
        is_whole=is_whole,
        has_all_names=has_all_names and before.counts_all and after.counts_all,
        figures=list(_figures(before, after, spans)),
        appeared=[_change(name, before, after, spans, at_ns) for name, at_ns in appeared.items()][:MOST],
        gone=[_change(name, before, after, spans, at_ns) for name, at_ns in gone][:MOST],
        rates=sorted((each for each in rates if has_rates and _has_changed(each, spans)), key=_factor, reverse=True)[
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
    seen: Mapping[Name, Seen], start: int, end: int, joined: frozenset[Name], open_clients: frozenset[Name]
) -> dict[Name, int]:
    """Return the names that were first seen since `start`, with the beginning of that minute; the newest first."""
    found = {name: each.first for name, each in seen.items() if start <= each.first < end and name not in joined}
    found |= dict.fromkeys(open_clients - joined - seen.keys(), end - 1)
    return {name: found[name] * MINUTE_NS for name in sorted(found, key=lambda name: (-found[name], name))}


def _gone(
    seen: Mapping[Name, Seen],
    then: tuple[int, int],
    start: int,
    newest: int,
    open_clients: frozenset[Name],
    *,
    is_whole: bool,
) -> Iterator[tuple[Name, int]]:
    """Yield the names that were there `then`, and are no longer, with the minute in which they were last seen."""
    for name in sorted(name for name, each in seen.items() if each.first < then[1] and each.last >= then[0]):
        last = seen[name].last
        is_here = (name in open_clients or last >= newest) if name.kind == "client" else last >= start or not is_whole
        if not is_here:
            yield name, last * MINUTE_NS


def _has_changed(change: Change, spans: tuple[float, float]) -> bool:
    most = max(change.then * spans[0], change.now * spans[1])
    return bool(change.then and change.now) and most >= LEAST_MESSAGES and _factor(change) >= FACTOR


def _factor(change: Change) -> float:
    """Return the factor by which a rate grew or fell."""
    return max(change.now / change.then, change.then / change.now)
