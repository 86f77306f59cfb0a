"""The latest traffic of some connections, as lines for people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from amqproxy.bodies.addon_bodies import with_decoded_body
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.findings.text import FindingLines
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_text import message_line
from amqproxy.taps.record import Record
from amqproxy.taps.text import line

Shown = TypeVar("Shown")

MOST_CONNECTIONS = 5
"""Maximum number of connections shown, the newest."""

MOST_LINES = 15
"""Maximum number of messages, and of frames, shown of each."""

LONGEST_LINE = 400
"""Maximum length of a line in characters."""


def last_lines(
    messages: Collection[MessageRecord], frames: Collection[Record], streams: Collection[int] | None = None
) -> str:
    """Return the latest messages and frames of these connections, or of all; "" if there are none."""
    names = {each.stream: each.connection for each in frames}
    names |= {each.stream: each.connection for each in messages}
    chosen = sorted(names if streams is None else names.keys() & set(streams))[-MOST_CONNECTIONS:]
    parts = []
    for stream in chosen:
        parts.append(f"connection #{stream}, {names[stream].replace('-', ' → ', 1)}")
        parts += _section("last messages", [each for each in messages if each.stream == stream], _message_line)
        parts += _section("last frames", [each for each in frames if each.stream == stream], line)
    return "\n".join(parts)


def message_lines(records: Iterable[MessageRecord]) -> str:
    """Return the first of the messages, as lines."""
    return _listed(list(records), _message_line)


def finding_lines(findings: Iterable[Finding]) -> str:
    """Return the first of the findings, with their reasons, as lines."""
    return _listed(list(findings), FindingLines().line)


def _message_line(record: MessageRecord) -> str:
    """Return the line of a message, whose body is shown as an addon reads it."""
    return message_line(with_decoded_body(record))


def _listed(records: Sequence[Shown], text: Callable[[Shown], str]) -> str:
    shown = [f"  {_cut(text(each))}" for each in records[:MOST_LINES]]
    if len(records) > MOST_LINES:
        shown.append(f"  and {len(records) - MOST_LINES} more")
    return "\n".join(shown)


def _section(title: str, records: Sequence[Shown], text: Callable[[Shown], str]) -> list[str]:
    if not records:
        return []
    shown = [f"    {_cut(text(each))}" for each in records[-MOST_LINES:]]
    return [f"  {title} ({len(shown)} of {len(records)}):" if len(records) > len(shown) else f"  {title}:", *shown]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
