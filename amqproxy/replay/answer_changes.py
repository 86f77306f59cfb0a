"""Fields in which a live command differs from its recorded counterpart."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.commands import Command
from amqproxy.comparison.difference import Change, body_changes, changes
from amqproxy.comparison.normalising import without_numbers
from amqproxy.replay.content_key import without_times
from amqproxy.taps.record import arguments, json_mapping

OF_THE_RUN: dict[str, tuple[str, ...]] = {
    "connection.start": ("server_properties", "mechanisms", "locales"),
    "connection.tune": ("channel_max", "frame_max", "heartbeat"),
    "basic.deliver": ("delivery_tag",),
    "basic.get-ok": ("delivery_tag", "message_count"),
    "basic.ack": ("delivery_tag",),
    "basic.nack": ("delivery_tag",),
    "basic.reject": ("delivery_tag",),
}
"""Fields that differ in every run, or with every broker, and are not compared."""


def answer_changes(recorded: Command, live: Command) -> list[Change]:
    """Return the fields in which `live` differs from `recorded`, by their names in the records of `decode`.

    Both have the names of the recording. `ProtocolError` if one of them is malformed.
    """
    one, other = recorded.method, live.method
    if one.name != other.name:
        return [Change(field="method", before=one.name, after=other.name)]
    found = changes(_fields(one), _fields(other))
    if one.carries_content:
        found += changes(
            json_mapping(without_times(recorded.properties).present()),
            json_mapping(without_times(live.properties).present()),
            "properties",
        )
        found += body_changes(recorded.body, live.body)
    return found


def _fields(method: Any) -> dict[str, Any]:
    """Return a method's fields, in JSON's types, without those of the run."""
    found = arguments(method)
    for name in OF_THE_RUN.get(method.name, ()):
        found.pop(name, None)
    if "reply_text" in found:
        found["reply_text"] = without_numbers(str(found["reply_text"]))
    return found
