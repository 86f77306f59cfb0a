"""A ladder diagram of the commands between the peers, in sequence, with repetition folded."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import msgspec

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.conversion.client_name import given_name
from amqproxy.taps.dialects import method_arguments
from amqproxy.taps.message_recorder import NORMAL_CODES
from amqproxy.views.command_text import note_text, title
from amqproxy.views.passed_command import PassedCommand, PassedKind

USUAL_ROWS = 500
"""Default number of rows of a ladder, all connections together."""

MAX_PERIOD = 8
"""Longest run of rows whose repetition is detected."""

MAX_TEXT = 200
"""Characters that are kept of each argument."""

CLIENT_LANE, PROXY_LANE, BROKER_LANE = range(3)
"""The possible senders and receivers."""

_MESSAGES = frozenset(
    [
        *(f"basic.{name}" for name in ("publish", "deliver", "get", "get-ok", "get-empty", "return", "ack", "nack")),
        *("basic.reject", "message.accept", "message.reject", "message.release", "message.transfer"),
        *("session.completed", "session.confirmed", "session.known-completed"),
    ]
)
_REFUSALS = frozenset({"basic.nack", "basic.return", "execution.exception", "message.reject"})
_LITTLE = frozenset(
    {"version_major", "version_minor", "locale", "locales", "class_id", "method_id", "timely_reply", "command_offset"}
)
"""Arguments that carry little information."""

_VARYING = ("command_id", "delivery_tag", "message_count", "transfers", "commands")
"""Arguments that differ between otherwise equal commands."""


class LadderRow(msgspec.Struct, kw_only=True):
    """A command, or `count` similar ones: from one lane to another, from `ts_ns` until `last_ts_ns`.

    `shown` holds the arguments that they share, and the first value of those that differ by nature; `last` their last
    value; `differing` the names of all other arguments. `least` and `most` are the body sizes in bytes, None without
    any.
    """

    number: int
    ts_ns: int
    last_ts_ns: int
    channel: int | None
    source: int
    target: int
    kind: PassedKind
    title: str
    key: Hashable
    shown: dict[str, Any]
    last: dict[str, Any]
    note: str
    is_refused: bool = False
    text: str = ""
    least: int | None = None
    most: int | None = None
    count: int = 1
    differing: set[str] = msgspec.field(default_factory=set)

    @property
    def is_error(self) -> bool:
        """Whether the row shows an error: unreadable bytes, a close with an error, or a refusal."""
        if self.title in ("channel.close", "connection.close"):
            return self.shown.get("reply_code", 0) not in NORMAL_CODES
        if self.title == "session.detached":
            return bool(self.shown.get("code"))
        return self.kind is PassedKind.ERROR or self.title in _REFUSALS or self.is_refused

    def absorb(self, other: LadderRow) -> None:
        """Fold a similar row into this one."""
        self.count += other.count
        self.last_ts_ns = max(self.last_ts_ns, other.last_ts_ns)
        for name in [*self.shown]:
            if name in _VARYING:
                self.last[name] = other.last.get(name, self.last.get(name))
            elif other.shown.get(name) != self.shown[name]:
                del self.shown[name]
                self.differing.add(name)
        self.differing |= other.differing | {name for name in other.shown if name not in self.shown}
        for size in (other.least, other.most):
            if size is not None:
                self.least = size if self.least is None else min(self.least, size)
                self.most = size if self.most is None else max(self.most, size)


class LadderGroup(msgspec.Struct, kw_only=True):
    """A sequence of rows that occurred `times` in succession; their counts cover all repetitions."""

    number: int
    rows: list[LadderRow]
    times: int

    @property
    def last_ts_ns(self) -> int:
        return max(row.last_ts_ns for row in self.rows)


LadderItem: TypeAlias = LadderRow | LadderGroup


class LadderSection(msgspec.Struct, kw_only=True):
    """A connection: its rows by number, and the reason of its end, if it has ended.

    `has_proxy` is whether it contains both legs of a session through the proxy.
    """

    stream: int
    connection: str
    items: dict[int, LadderItem] = msgspec.field(default_factory=dict)
    end: str = ""
    name: str = ""
    has_proxy: bool = False


class Ladder:
    """Adds commands in at most `most` rows; those that do not fit are counted.

    Each channel is folded separately, so that interleaved channels do not hide each other's repetition. `left_out` is
    the number of commands that did not fit, `left_out_connections` that of connections without any row.
    """

    def __init__(self, most: int = USUAL_ROWS) -> None:
        self.sections: list[LadderSection] = []
        self.left_out = self.left_out_connections = 0
        self._most = most
        self._rows = 0
        self._number = 0
        self._open: dict[int, _OpenSection] = {}

    def add(self, command: PassedCommand, stream: int | None = None) -> None:
        """Add a command; to the section of another `stream` if that is the other leg of the same session."""
        stream = command.stream if stream is None else stream
        section = self._open.get(stream)
        if command.kind is PassedKind.END:
            if section is not None and stream == command.stream:
                del self._open[stream]
                if section.section is not None:
                    section.section.end = command.text
            return
        if section is None:
            section = self._open[stream] = _OpenSection()
            if self._rows < self._most:
                section.section = LadderSection(stream=stream, connection=command.connection)
                self.sections.append(section.section)
            else:
                self.left_out_connections += 1
        if section.section is None:
            self.left_out += 1
            return
        row = _row(self._number + 1, command)
        section.section.has_proxy = section.section.has_proxy or PROXY_LANE in (row.source, row.target)
        if command.method is not None and command.method.name == "connection.start-ok":
            properties: Any = command.method.client_properties  # type: ignore[union-attr]
            section.section.name = given_name(getattr(properties, "values_by_name", properties) or {})
        channel = section.channels.get(command.channel or 0)
        if channel is None:
            channel = section.channels[command.channel or 0] = _ChannelFolding(section.section.items)
        if channel.is_cut or (self._rows >= self._most and not channel.may_fold(row.key)):
            channel.is_cut = True
            self.left_out += 1
            return
        self._number += 1
        self._rows += channel.add(row)

    def pair(self, stream: int) -> None:
        """Note that both legs of the session whose client leg is `stream` are shown."""
        section = self._open.get(stream)
        if section is not None and section.section is not None:
            section.section.has_proxy = True


class _OpenSection:
    """A connection that has not ended: its section, None if the ladder is full, and the foldings of its channels."""

    def __init__(self) -> None:
        self.section: LadderSection | None = None
        self.channels: dict[int, _ChannelFolding] = {}


class _ChannelFolding:
    """Detects repetition among the rows of one channel, which are among the `items` of its section.

    Consecutive similar rows become one; then a sequence of rows that repeats becomes a group, whatever the count of
    each.
    """

    def __init__(self, items: dict[int, LadderItem]) -> None:
        self.is_cut = False
        self._items = items
        self._recent: list[LadderRow] = []
        """The latest rows outside of groups; directly after a group, the candidates for its next repetition."""
        self._group: LadderGroup | None = None

    def may_fold(self, key: Hashable) -> bool:
        """Whether a row with this key merges with the last row, or may continue a repetition of the group."""
        group, recent = self._group, self._recent
        if recent and recent[-1].key == key:
            return True
        if group is None:
            return False
        return group.rows[len(recent)].key == key or (not recent and group.rows[-1].key == key)

    def add(self, row: LadderRow) -> int:
        """Add the next row of the channel; return the change in the number of rows, which may be negative."""
        group, recent = self._group, self._recent
        if recent and recent[-1].key == row.key:
            recent[-1].absorb(row)
            return 0
        if group is not None and not recent and group.rows[-1].key == row.key:
            group.rows[-1].absorb(row)
            return 0
        self._items[row.number] = row
        recent.append(row)
        if group is None:
            return 1 - self._fold()
        if group.rows[len(recent) - 1].key != row.key:
            self._group = None  # the presumed next repetition is not one
            return 1 - self._fold()
        if len(recent) < len(group.rows):
            return 1
        self._merge(group, recent)
        self._recent = []
        return 1 - len(group.rows)

    def _fold(self) -> int:
        """Group the latest rows if they repeat those before; return the number of rows saved."""
        recent = self._recent
        del recent[: -2 * MAX_PERIOD]
        for period in range(2, len(recent) // 2 + 1):
            one, two = recent[-2 * period : -period], recent[-period:]
            if all(first.key == second.key for first, second in zip(one, two, strict=True)):
                group = LadderGroup(number=one[0].number, rows=one, times=1)
                for row in one[1:]:
                    del self._items[row.number]
                self._items[group.number] = group
                self._merge(group, two)
                self._group, self._recent = group, []
                return period
        return 0

    def _merge(self, group: LadderGroup, repetition: list[LadderRow]) -> None:
        group.times += 1
        for row, other in zip(group.rows, repetition, strict=True):
            row.absorb(other)
            del self._items[other.number]


def _lanes(command: PassedCommand) -> tuple[int, int]:
    """Return the source and target lanes; if the legs differ, one of them is the proxy."""
    is_client = command.sender == CLIENT
    leg = command.note.leg
    near = PROXY_LANE if leg == "upstream" else CLIENT_LANE
    far = PROXY_LANE if leg == "client" else BROKER_LANE
    return (near, far) if is_client else (far, near)


def _row(number: int, command: PassedCommand) -> LadderRow:
    source, target = _lanes(command)
    given, note = _arguments(command), note_text(command.note._replace(leg=""))
    return LadderRow(
        number=number,
        ts_ns=command.ts_ns,
        last_ts_ns=command.ts_ns,
        channel=command.channel,
        source=source,
        target=target,
        kind=command.kind,
        title=title(command),
        key=(source, target, command.kind, _subject(command, given), command.text, note),
        shown=given,
        last={name: given[name] for name in _VARYING if name in given},
        note=note,
        is_refused=command.note.verdict == "refused",
        text=command.text[:MAX_TEXT],
        least=command.size,
        most=command.size,
    )


def _subject(command: PassedCommand, given: dict[str, Any]) -> Hashable:
    """Return the key that similar commands share: the destination of messages, all arguments of requests."""
    name = title(command)
    if name in _MESSAGES:
        places = ("exchange", "queue", "consumer_tag", "destination")
        return (name, *(given.get(place) for place in places))
    return (name, *((key, str(value)) for key, value in given.items() if key not in _VARYING))


_SETS = frozenset({"commands", "transfers"})
"""Arguments that are sets of command ids."""


def _set_text(ranges: list[Any]) -> str:
    """Format a set of command ids."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _arguments(command: PassedCommand) -> dict[str, Any]:
    """Return the informative arguments, tags first, without tables and without empty or false values."""
    if command.method is None:
        return {}
    found: dict[str, Any] = {} if command.command_id is None else {"command_id": command.command_id}
    given = {**command.places, **method_arguments(command.method)}
    for name, value in sorted(given.items(), key=lambda each: each[0] not in _VARYING):
        if name in _SETS and isinstance(value, list):
            found[name] = _set_text(value)[:MAX_TEXT]
            continue
        if name in _LITTLE or isinstance(value, dict | list) or value is False or value == "":
            continue
        found[name] = value if not isinstance(value, str) or len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    return found
