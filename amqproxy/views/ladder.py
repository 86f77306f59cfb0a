"""A ladder of what passed: who sent what to whom, one after the other, with repetition folded.

Somewhat long, as the one place where rows are found to repeat.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

import msgspec

from amqproxy.amqp010.controls import ConnectionStartOk as Amqp010StartOk
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.capture.selection.conversation import given_name
from amqproxy.taps.amqp010.transfers import TransferProperties
from amqproxy.taps.message_recorder import NORMAL_CODES
from amqproxy.taps.method_arguments import method_arguments
from amqproxy.views.command_text import note_text, title
from amqproxy.views.passed_command import PassedCommand, PassedKind

USUAL_ROWS = 500
"""Rows of a ladder, all connections together, unless told otherwise."""

MAX_PERIOD = 8
"""Rows that repeat together are found if there are no more of them."""

MAX_TEXT = 200
"""Characters that are kept of each argument."""

CLIENT_LANE, PROXY_LANE, BROKER_LANE = range(3)
"""Who may send and receive."""

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
"""Arguments that say little, and take room."""

_VARYING = ("command_id", "delivery_tag", "message_count", "transfers", "commands")
"""Arguments that differ from one command to the next that is otherwise the same."""


class LadderRow(msgspec.Struct, kw_only=True):
    """One command, or `count` of them that were alike: from one lane to another, from `ts_ns` until `last_ts_ns`.

    `shown` are the arguments that they share. Of those that differ by nature there is the first, and in `last` the
    last; `differing` are the names of all others. `least` and `most` are the bytes of their bodies, None without any.
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
        """Did something go wrong: bytes that cannot be read, a close with an error, a refusal?"""
        if self.title in ("channel.close", "connection.close"):
            return self.shown.get("reply_code", 0) not in NORMAL_CODES
        if self.title == "session.detached":
            return bool(self.shown.get("code"))
        return self.kind is PassedKind.ERROR or self.title in _REFUSALS or self.is_refused

    def absorb(self, other: LadderRow) -> None:
        """Count another row that is alike with this one."""
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
    """Rows that were repeated so many `times`, one after the other; their counts are of all repetitions."""

    number: int
    rows: list[LadderRow]
    times: int

    @property
    def last_ts_ns(self) -> int:
        return max(row.last_ts_ns for row in self.rows)


LadderItem: TypeAlias = LadderRow | LadderGroup


class LadderSection(msgspec.Struct, kw_only=True):
    """One connection: its rows, by their numbers, and why it is over, if it is.

    `has_proxy` is whether both legs of a session through the proxy are in it.
    """

    stream: int
    connection: str
    items: dict[int, LadderItem] = msgspec.field(default_factory=dict)
    end: str = ""
    name: str = ""
    has_proxy: bool = False


class Ladder:
    """Adds one command after the other, in at most `most` rows; what does not fit is counted.

    Each channel is folded by itself, so that channels which pass each other do not hide that each repeats. `left_out`
    are the commands that did not fit, and `left_out_connections` the connections of which there is no row at all.
    """

    def __init__(self, most: int = USUAL_ROWS) -> None:
        self.sections: list[LadderSection] = []
        self.left_out = self.left_out_connections = 0
        self._most = most
        self._rows = 0
        self._number = 0
        self._open: dict[int, _OpenSection] = {}

    def add(self, command: PassedCommand, stream: int | None = None) -> None:
        """Add a command; to the section of another `stream`, where that is the other leg of the same session."""
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
        if isinstance(command.method, ConnectionStartOk | Amqp010StartOk):
            section.section.name = given_name(command.method)
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
        """Note that both legs of the session whose client's leg is `stream` are shown."""
        section = self._open.get(stream)
        if section is not None and section.section is not None:
            section.section.has_proxy = True


class _OpenSection:
    """A connection that is not over: its section, unless there is no room for one, and the foldings of its channels."""

    def __init__(self) -> None:
        self.section: LadderSection | None = None
        self.channels: dict[int, _ChannelFolding] = {}


class _ChannelFolding:
    """Finds what repeats among the rows of one channel, which are among the `items` of its section.

    Alike rows in a row are one; then rows that repeat together, however often each of them does, are a group.
    """

    def __init__(self, items: dict[int, LadderItem]) -> None:
        self.is_cut = False
        self._items = items
        self._recent: list[LadderRow] = []
        """The latest rows outside of groups; right behind a group, those that may become its next repetition."""
        self._group: LadderGroup | None = None

    def may_fold(self, key: Hashable) -> bool:
        """Would a row with this key need no room of its own, or perhaps none in the end?"""
        group, recent = self._group, self._recent
        if recent and recent[-1].key == key:
            return True
        if group is None:
            return False
        return group.rows[len(recent)].key == key or (not recent and group.rows[-1].key == key)

    def add(self, row: LadderRow) -> int:
        """Take the next row of the channel; how many more rows there are with it, which may be negative."""
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
            self._group = None  # what seemed to be its next repetition is none
            return 1 - self._fold()
        if len(recent) < len(group.rows):
            return 1
        self._merge(group, recent)
        self._recent = []
        return 1 - len(group.rows)

    def _fold(self) -> int:
        """Make a group of the latest rows, if they repeat those before; how many rows that saves."""
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
    """From whom to whom; where the legs differ, one of them is the proxy."""
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
    """What commands that are alike have in common: messages, where they go to; requests, all that they ask for."""
    name = title(command)
    if name in _MESSAGES:
        places = ("exchange", "queue", "consumer_tag", "destination")
        return (name, *(given.get(place) for place in places))
    return (name, *((key, str(value)) for key, value in given.items() if key not in _VARYING))


_SETS = frozenset({"commands", "transfers"})
"""Sets of command ids."""


def _set_text(ranges: list[Any]) -> str:
    """A set of command ids, as a person writes it."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _place(command: PassedCommand) -> dict[str, Any]:
    """Where a message of 0-10 is from, or to: that is in its header."""
    properties = command.properties
    delivery = properties.header.delivery if isinstance(properties, TransferProperties) else None
    return {} if delivery is None else {"exchange": delivery.exchange or "", "routing_key": delivery.routing_key or ""}


def _arguments(command: PassedCommand) -> dict[str, Any]:
    """The arguments that say something, tags first: no tables, and nothing that is empty or false."""
    if command.method is None:
        return {}
    found: dict[str, Any] = {} if command.command_id is None else {"command_id": command.command_id}
    given = {**_place(command), **method_arguments(command.method)}
    for name, value in sorted(given.items(), key=lambda each: each[0] not in _VARYING):
        if name in _SETS and isinstance(value, list):
            found[name] = _set_text(value)[:MAX_TEXT]
            continue
        if name in _LITTLE or isinstance(value, dict | list) or value is False or value == "":
            continue
        found[name] = value if not isinstance(value, str) or len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    return found
