"""Result of a replay: differences, commands that were not played, recorded and live latencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.comparison.difference import Change, Difference, DifferenceKind, Place, SentOtherwise
from amqproxy.comparison.latencies import Latencies
from amqproxy.replay.answer_changes import answer_changes
from amqproxy.replay.steps import CommandSent, ProtocolHeaderSent, SentStep, Step
from amqproxy.taps.record import arguments, encoded
from amqproxy.taps.trace.events import (
    ChannelOpened,
    ConnectionOpened,
    PublishesSettled,
    RequestAnswered,
    TraceEvent,
)

MAX_DIFFERENCES = 10_000
"""Differences that are kept; more are only counted."""

MAX_REASONS = 200
"""Distinct reasons for unplayed commands that are kept."""

MAX_NOTES = 100

_QUANTILES = (("p50", 0.50), ("p99", 0.99))


class LatenciesByKind:
    """Latencies of the broker by kind of request, from the traces of its connections."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Latencies] = {}

    def note(self, events: Iterable[TraceEvent]) -> None:
        """Add the latencies in events of a trace."""
        for event in events:
            match event:
                case RequestAnswered(request=request, latency_ns=latency) if (
                    request is not None and latency is not None
                ):
                    self._add(request.name, latency)
                case PublishesSettled(spans=spans, ts_ns=ts_ns):
                    for span in spans:
                        self._add("publish confirmed", ts_ns - span.ts_ns, span.count)
                case ConnectionOpened(latency_ns=int(latency)):
                    self._add("connection opened", latency)
                case ChannelOpened(latency_ns=int(latency)):
                    self._add("channel.open", latency)
                case _:
                    pass

    def _add(self, kind: str, latency_ns: int, count: int = 1) -> None:
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = Latencies()
        found.add(latency_ns, count)

    @property
    def kinds(self) -> list[str]:
        return sorted(self._by_kind)

    def summary(self, kind: str) -> dict[str, Any] | None:
        """Return `count`, and `p50` and `p99` in seconds; None without latencies of this kind."""
        found = self._by_kind.get(kind)
        if found is None:
            return None
        quantiles = {name: float(f"{found.quantile(share):.3g}") for name, share in _QUANTILES}
        return {"count": found.count, **quantiles}


class NotPlayed(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Recorded commands that were not sent, for the same reason; `first` is the place of the first of them."""

    reason: str
    count: int
    method: str | None = None
    first: Place


class ReplayResult:
    """The result of all copies of a capture.

    `on_difference` is called with each difference when it is found, and `on_sent` with each command that is sent with
    other fields than were recorded; these do not count as differences.
    """

    def __init__(
        self,
        on_difference: Callable[[Difference], None] | None = None,
        ignored: Sequence[str] = (),
        on_sent: Callable[[SentOtherwise], None] | None = None,
    ) -> None:
        """Create an empty result; `ignored` fields, with everything in them, do not count as differences."""
        self.differences: list[Difference] = []
        self.difference_count = 0
        self._counts = dict.fromkeys((DifferenceKind.MISSING, DifferenceKind.EXTRA, DifferenceKind.CHANGED), 0)
        self.sent = 0
        self.answers = 0
        self.connections = 0
        self.retried = 0
        self.padded = 0
        self.recorded = LatenciesByKind()
        self.live = LatenciesByKind()
        self.notes: list[str] = []
        self._on_difference = on_difference
        self._on_sent = on_sent
        self._ignored = ignored
        self._not_played: dict[tuple[str, str | None], NotPlayed] = {}

    @property
    def is_same(self) -> bool:
        """Whether everything was played, without any difference."""
        return not self.difference_count and not self._not_played

    @property
    def not_played(self) -> list[NotPlayed]:
        return list(self._not_played.values())

    def matched(self, recorded: CommandSent, live: Command, changes: list[Change], now_ns: int) -> None:
        """Count a live answer that stands for a recorded one; report its changes, if any."""
        self.answers += 1
        if self._ignored:
            changes = [each for each in changes if not self._is_ignored(each.field)]
        if changes:
            channel = live.channel if recorded.session is None else recorded.session
            self.add(_changed(Difference, recorded, changes, live_place(recorded, now_ns, channel)))

    def _is_ignored(self, field: str) -> bool:
        return any(field == each or field.startswith((f"{each}.", f"{each}[")) for each in self._ignored)

    def sent_as(self, recorded: CommandSent, live: Command, now_ns: int) -> None:
        """Report the fields, except for tags, in which a sent command differs from the recorded one."""
        if self._on_sent is None:
            return
        with suppress(ProtocolError):
            changes = answer_changes(recorded.command, live)
            if changes:
                place = live_place(recorded, now_ns, recorded.channel)
                self._on_sent(_changed(SentOtherwise, recorded, changes, place))

    def missing(self, step: Step, why: str) -> None:
        """Report that a recorded answer did not come."""
        command = step.command if isinstance(step, CommandSent) else None
        name = _step_name(step)
        what = "a protocol header" if isinstance(step, ProtocolHeaderSent) else "the connection's end"
        if isinstance(step, CommandSent):
            what = described(step.command, step.name)
        elif isinstance(step, SentStep):
            what = str(name)
        self.add(
            Difference(
                kind=DifferenceKind.MISSING,
                type="connection" if command is None else _type(command),
                what=f"{what}: {why}",
                method=name,
                a=place_of(step),
            )
        )

    def extra(
        self,
        command: Command,
        stream: int,
        connection: str,
        now_ns: int,
        *,
        name: str = "",
        session: int | None = None,
    ) -> None:
        """Report an answer that the recording does not have; `name` and `session` are as in `CommandSent`."""
        channel = command.channel if session is None else session
        self.add(
            Difference(
                kind=DifferenceKind.EXTRA,
                type=_type(command),
                what=described(command, name),
                method=name or _name(command),
                b=Place(ts_ns=now_ns, stream=stream, connection=connection, channel=channel),
            )
        )

    def extra_event(self, what: str, stream: int, connection: str, now_ns: int) -> None:
        """Report another event that the recording does not have."""
        place = Place(ts_ns=now_ns, stream=stream, connection=connection)
        self.add(Difference(kind=DifferenceKind.EXTRA, type="connection", what=what, b=place))

    def add(self, difference: Difference) -> None:
        self.difference_count += 1
        self._counts[difference.kind] += 1
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(difference)
        if self._on_difference is not None:
            self._on_difference(difference)

    def unplayed(self, step: Step, reason: str) -> None:
        """Note a recorded command that was not sent, for a reason."""
        method = _step_name(step)
        if len(self._not_played) >= MAX_REASONS and (reason, method) not in self._not_played:
            reason, method = "for further reasons", None
        found = self._not_played.get((reason, method))
        if found is not None:
            self._not_played[reason, method] = msgspec.structs.replace(found, count=found.count + 1)
        else:
            self._not_played[reason, method] = NotPlayed(reason=reason, count=1, method=method, first=place_of(step))

    def note(self, text: str) -> None:
        """Add a note for the reader, unless it is there."""
        if text not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(text)

    def summary(self) -> dict[str, Any]:
        """Return the totals in JSON's types: commands, differences by kind, unplayed commands, and latencies."""
        names = sorted({*self.recorded.kinds, *self.live.kinds})
        return {
            "same": self.is_same,
            "connections": self.connections,
            "commands_sent": self.sent,
            "answers_compared": self.answers,
            "differences": self.difference_count,
            **{kind.value: count for kind, count in self._counts.items()},
            "gets_retried": self.retried,
            "bodies_filled_up": self.padded,
            "not_played": msgspec.to_builtins(self.not_played),
            "notes": self.notes,
            "latencies": {
                name: {"recorded": self.recorded.summary(name), "live": self.live.summary(name)} for name in names
            },
        }

    def progress_json(self, loop: int) -> bytes:
        """Return the progress as a line of JSON, with keys of the summary; `loop` counts the rounds from 1."""
        return encoded(
            {
                "report": "progress",
                "connections": self.connections,
                "commands_sent": self.sent,
                "answers_compared": self.answers,
                "differences": self.difference_count,
                "loop": loop,
            }
        )

    def summary_json(self) -> bytes:
        return encoded({"report": "summary", **self.summary()})


def place_of(step: Step) -> Place:
    channel = step.channel if isinstance(step, SentStep) else None
    return Place(ts_ns=step.ts_ns, stream=step.stream, connection=step.connection, channel=channel)


def live_place(step: Step, now_ns: int, channel: int) -> Place:
    return Place(ts_ns=now_ns, stream=step.stream, connection=step.connection, channel=channel)


_D = TypeVar("_D", bound=Difference)


def _changed(of: type[_D], recorded: CommandSent, changes: Sequence[Change], live: Place) -> _D:
    """Return a difference between a recorded command and the one at the `live` place."""
    return of(
        kind=DifferenceKind.CHANGED,
        type=_type(recorded.command),
        what=described(recorded.command, recorded.name),
        method=recorded.name or _name(recorded.command),
        a=place_of(recorded),
        b=live,
        changes=tuple(changes),
    )


_SHOWN = ("queue", "exchange", "routing_key", "consumer_tag", "reply_code", "reply_text", "delivery_tag")


def described(command: Command, name: str = "") -> str:
    """Return a command on one line, with the arguments that distinguish it from others; `name` as in `CommandSent`."""
    try:
        method = command.method
        fields = arguments(method)
    except ProtocolError as error:
        return f"a malformed method ({error.text})"
    shown = [f"{name}={fields[name]!r}" for name in _SHOWN if fields.get(name) not in (None, "")]
    return " ".join([name or method.name, *shown])


def _step_name(step: Step) -> str | None:
    return step.method_name if isinstance(step, SentStep) else None


def _name(command: Command) -> str | None:
    try:
        return str(command.method.name)
    except ProtocolError:
        return None


_TYPES = {
    "basic.deliver": "deliver",
    "basic.get-ok": "get",
    "basic.return": "return",
    "basic.ack": "publish",
    "basic.nack": "publish",
    "channel.close": "channel",
    "connection.close": "connection",
    "connection.blocked": "connection",
    "connection.unblocked": "connection",
}


def _type(command: Command) -> str:
    return _TYPES.get(_name(command) or "", "request")
