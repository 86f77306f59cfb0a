"""Records of messages as lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amqproxy.conversion.client_name import given_name
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.message_recorder import NORMAL_CODES
from amqproxy.taps.text import ARROWS, RED, RESET, YELLOW, clock, pairs, printable, value_text

_BAD = frozenset({"nacked", "rejected", "returned", "open", "rolled back", "unanswered", "blocked", "stopped"})
"""Outcomes that deserve attention, though they are not errors."""

_SETS = frozenset({"commands", "transfers"})
"""Names of arguments that are sets of command ids."""


def message_line(record: MessageRecord, *, is_coloured: bool = False) -> str:
    """Return one line: the time (UTC), the connection's number, the sender, the channel, the command and its outcome.

    → is from the client, ← from the server.
    """
    channel = "" if record.channel is None else f"ch {record.channel}"
    arrow = ARROWS.get(record.sender or "", "·")
    text = f"{clock(record.ts_ns)} #{record.stream:<3} {arrow} {channel:<7} {_what(record)}".rstrip()
    text += _rules(record)
    if not is_coloured:
        return text
    is_returned = record.type == "publish" and record.code is not None
    colour = RED if _is_error(record) else YELLOW if record.outcome in _BAD or is_returned else ""
    return f"{colour}{text}{RESET}" if colour else text


def _is_error(record: MessageRecord) -> bool:
    if record.type == "error" or record.outcome == "unknown tag":
        return True
    return record.outcome == "closed" and (record.code or 0) not in NORMAL_CODES


def _what(record: MessageRecord) -> str:
    match record.type:
        case "publish" | "deliver" | "get" | "return":
            return _message(record)
        case "request":
            return _request(record)
        case "settle":
            if record.method is None:
                return "UNKNOWN TAG: a confirm names no open publish"
            tag = "" if record.delivery_tag is None else f" {record.delivery_tag}"
            up_to = " and all before" if record.multiple and record.method.startswith("basic.") else ""
            return f"UNKNOWN TAG: {record.method}{tag}{up_to} names no open delivery"
        case "error":
            return f"ERROR {printable(record.reason or '')}"
        case _:
            return _event(record)


def _message(record: MessageRecord) -> str:
    named = {
        "tag": record.confirm_tag if record.delivery_tag is None else record.delivery_tag,  # a tag may be 0
        "exchange": record.exchange,
        "routing_key": record.routing_key,
        "queue": record.queue,
        "consumer_tag": record.consumer_tag,
    }
    flags = [flag for flag in ("mandatory", "redelivered") if getattr(record, flag)]
    parts = [f"{record.type:<8}", pairs({name: value for name, value in named.items() if value is not None})]
    parts += [*flags, "" if record.size is None else f"{record.size} bytes"]
    if record.properties:  # without those shown already
        shown = {name: value for name, value in record.properties.items() if named.get(name) != value}
        parts.append(pairs({name: value for name, value in shown.items() if name not in flags}))
    if record.decoded is not None:
        parts.append(f"body({printable(record.decoded['form'])})={value_text(record.decoded['value'])}")
    elif record.body is not None:
        parts.append(f"body={value_text(record.body)}")
    return f"{' '.join(part for part in parts if part)}  {_outcome(record)}"


def _outcome(record: MessageRecord) -> str:
    """Return the outcome and its latency, as in: ⇒ confirmed, 0.31 ms."""
    parts = []
    if record.code:
        parts.append(f"returned {record.code} {printable(record.reason or '')}".rstrip())
    if record.outcome != "returned":
        requeued = "" if record.requeue is None else " (requeued)" if record.requeue else " (not requeued)"
        parts.append(f"{record.outcome}{requeued}")
    if record.seconds is not None:
        parts.append(duration(record.seconds))
    return f"⇒ {', '.join(parts)}"


def _request(record: MessageRecord) -> str:
    if record.method is None:
        what = "a request that was not seen"
    elif record.arguments is None and record.reply is not None:
        what = f"{record.method} (arguments unknown)"
    else:
        what = f"{record.method}  {_given(record.arguments)}".rstrip()
    if record.reply is None:
        return f"{what}  ⇒ {record.outcome}"
    answer = f"{record.reply} {_given(record.reply_arguments)}".rstrip()
    took = "" if record.seconds is None else f", {duration(record.seconds)}"
    return f"{what}  ⇒ {answer}{took}"


def _event(record: MessageRecord) -> str:
    took = "" if record.seconds is None else f", {duration(record.seconds)}"
    head = f"{record.type} {record.outcome}"
    if record.outcome == "opened":
        return f"{head}{took}  {_folded(record.arguments or {})}".rstrip()
    if record.outcome == "closed":
        by = f" by {record.sender}" if record.sender else ""
        code = f"{record.code} " if record.code else ""
        cause = ""
        if record.method:
            arguments = "" if record.arguments is None else f" {_given(record.arguments)}"
            cause = f"  because of {record.method}{arguments}".rstrip()
        text = f"{code}{printable(record.reason or '')}".strip()
        return f"{head}{by}{': ' if text else ''}{text}{cause}"
    reason = f": {printable(record.reason)}" if record.reason else ""
    return f"{head}{took}{reason}"


def _given(arguments: Mapping[str, Any] | None) -> str:
    """Return NAME=VALUE for each argument that is not empty."""
    return pairs(
        {
            name: _ids(value) if name in _SETS and isinstance(value, list) else value
            for name, value in (arguments or {}).items()
            if value not in ({}, [])
        }
    )


def _ids(ranges: list[Any]) -> str:
    """Return a set of command ids as people write it: 0-3,7."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _folded(arguments: Mapping[str, Any]) -> str:
    """Return the results of a handshake, with the peers' properties reduced to product, version and connection name."""
    values = {name: value for name, value in arguments.items() if not name.endswith("_properties")}
    for peer in ("client", "server"):
        properties = arguments.get(f"{peer}_properties") or {}
        version = [properties[name] for name in ("product", "version") if isinstance(properties.get(name), str)]
        if version:
            values[peer] = " ".join(version)
        if name := given_name(properties):
            values["connection_name"] = name
    return pairs(values)


def _rules(record: MessageRecord) -> str:
    parts = []
    if record.rules:
        parts.append(f"{record.verdict} by {', '.join(value_text(rule) for rule in record.rules)}")
    if record.tags:
        parts.append(f"tags: {', '.join(record.tags)}")
    return f"  [{'; '.join(parts)}]" if parts else ""


def duration(seconds: float) -> str:
    """Return a duration in a readable unit: 12 µs, 0.31 ms, 2.5 s."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError
