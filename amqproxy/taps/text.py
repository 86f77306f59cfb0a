"""Records as lines for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from amqproxy.taps.record import Record

RED, YELLOW, RESET = "\x1b[31m", "\x1b[33m", "\x1b[0m"

ARROWS = {"client": "→", "server": "←"}


def line(record: Record) -> str:
    """Return one line: the time (UTC), the connection's number, the sender, the channel, and the content.

    → is from the client, ← from the server.
    """
    channel = "" if record.channel is None else f"ch {record.channel}"
    text = f"{clock(record.ts_ns)} #{record.stream:<3} {ARROWS[record.sender]} {channel:<7} {_what(record)}".rstrip()
    return f"{text}  {_note(record)}" if record.leg or record.rules or record.tags or record.comments else text


def _note(record: Record) -> str:
    """Return the effect of rules in brackets, as in: [client leg; refused by no-guests; tags: slow]."""
    parts = [f"{record.leg} leg"] if record.leg else []
    if record.rules:
        parts.append(f"{record.verdict} by {', '.join(value_text(rule) for rule in record.rules)}")
    if record.tags:
        parts.append(f"tags: {', '.join(record.tags)}")
    parts += [f"★ {printable(comment)}" for comment in record.comments or ()]
    return f"[{'; '.join(parts)}]"


def clock(ts_ns: int) -> str:
    """Return the time of day in UTC, to the microsecond."""
    return f"{_time_of_day(ts_ns // 1_000_000_000)}.{ts_ns // 1000 % 1_000_000:06d}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: "1 line", "2,000 lines"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


@lru_cache(maxsize=16)
def _time_of_day(seconds: int) -> str:
    minutes, second = divmod(seconds % 86_400, 60)  # without the date: captures contain impossible ones
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"


def _what(record: Record) -> str:
    if record.flags is not None and record.type in ("control", "command", "header"):  # parts of segments
        return _segment(record)
    if record.type == "method":
        return f"{record.method}  {pairs(record.arguments or {})}"
    if record.type == "header":
        size = (record.arguments or {}).get("body_size", 0)
        return f"  header  {size} bytes to come  {pairs(record.properties or {})}"
    if record.type == "body":
        shown = "" if record.body is None else f"  {value_text(record.body)}"
        lost = f", {record.lost} not captured" if record.lost else ""
        return f"  body  {record.size} bytes{lost}{shown}"
    if record.type == "protocol-header":
        return f"protocol header: {record.protocol}"
    if record.type == "error":
        place = "" if record.offset is None else f" at byte {record.offset}"
        lost = f", {record.lost} bytes lost" if record.lost else ""
        return f"ERROR {record.code or ''} {printable(record.reason or '')}{place}{lost}"
    return record.type


def _segment(record: Record) -> str:
    """Return the text of a control, of a command with its id, or of a header."""
    number = "" if record.command_id is None else f"{record.command_id}: "
    if record.type == "header":
        return f"  header  {pairs(record.properties or {})}"
    return f"{number}{record.method or record.type}  {pairs(record.arguments or {})}"


def printable(text: str) -> str:
    return text if text.isprintable() else _in_ascii(text)[1:-1]


def pairs(values: Mapping[str, Any]) -> str:
    """Return NAME=VALUE for each value that is not empty."""
    return " ".join(
        f"{name}={value_text(value)}" for name, value in values.items() if value is not False and value != ""
    )


def value_text(value: Any) -> str:
    """Return a value as text that is safe on a terminal: control characters from a peer are escaped."""
    if isinstance(value, str) and value and value.isprintable() and " " not in value:
        return value
    text = _in_any_script(value)
    return text if text.isprintable() else _in_ascii(value)


_in_any_script = json.JSONEncoder(ensure_ascii=False, default=str).encode
_in_ascii = json.JSONEncoder(default=str).encode
