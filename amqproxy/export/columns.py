"""The columns of flat formats: paths into the JSON objects of frames, messages and findings."""

from __future__ import annotations

from amqproxy.amqp091.properties import Properties

_BEGINNING = ("time", "ts_ns", "stream", "connection")
_PROPERTIES = tuple(f"properties.{name}" for name in Properties.__struct_fields__)
_RULES = ("rules", "tags", "verdict")

FRAME_COLUMNS = (
    *_BEGINNING,
    "from",
    "leg",
    "protocol",
    "channel",
    "type",
    "method",
    "size",
    "arguments.exchange",
    "arguments.routing_key",
    "arguments.queue",
    "arguments.consumer_tag",
    "arguments.delivery_tag",
    "arguments.multiple",
    "arguments",
    *_PROPERTIES,
    "body",
    "code",
    "reason",
    "offset",
    "lost",
    *_RULES,
    "command_id",
    "flags",
)
"""`arguments` holds all arguments of a method, as JSON, and `properties.headers` all headers."""

MESSAGE_COLUMNS = (
    *_BEGINNING,
    "from",
    "channel",
    "type",
    "outcome",
    "seconds",
    "number",
    "confirm_tag",
    "delivery_tag",
    "multiple",
    "consumer_tag",
    "queue",
    "exchange",
    "routing_key",
    "mandatory",
    "redelivered",
    "requeue",
    "size",
    *_PROPERTIES,
    "body",
    "method",
    "arguments",
    "reply",
    "reply_arguments",
    "code",
    "reason",
    *_RULES,
)

FINDING_COLUMNS = (*_BEGINNING, "channel", "kind", "severity", "text", "count", "evidence", "why", "remedy")


def columns(*, messages: bool, findings: bool) -> tuple[str, ...]:
    """Return the columns of an export; a row has values in those of its kind."""
    if messages and findings:
        return MESSAGE_COLUMNS + tuple(each for each in FINDING_COLUMNS if each not in MESSAGE_COLUMNS)
    if messages:
        return MESSAGE_COLUMNS
    return FINDING_COLUMNS if findings else FRAME_COLUMNS
