"""The latest traffic of some connections, as lines for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.findings.text import FindingLines
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_text import message_line
from amqproxy.taps.record import Record
from amqproxy.taps.text import line

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
        parts += _section("last messages", [message_line(each) for each in messages if each.stream == stream])
        parts += _section("last frames", [line(each) for each in frames if each.stream == stream])
    return "\n".join(parts)


def message_lines(records: Iterable[MessageRecord]) -> str:
    """Return the first of the messages, as lines."""
    return _listed([message_line(each) for each in records])


def finding_lines(findings: Iterable[Finding]) -> str:
    """Return the first of the findings, with their reasons, as lines."""
    lines = FindingLines()
    return _listed([lines.line(each) for each in findings])


def _listed(lines: list[str]) -> str:
    shown = [f"  {_cut(each)}" for each in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"  and {len(lines) - MOST_LINES} more")
    return "\n".join(shown)


def _section(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    shown = [f"    {_cut(each)}" for each in lines[-MOST_LINES:]]
    return [f"  {title} ({len(shown)} of {len(lines)}):" if len(lines) > len(shown) else f"  {title}:", *shown]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
