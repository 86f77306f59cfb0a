"""Changes of a message before it returns, and what they changed."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.taps.record import json_mapping, json_value
from amqproxy.workbench.held_message import HeldMessage, with_headers, without
from amqproxy.workbench.message_line import properties_of

MAX_TEXT = 64 * 1024
"""Largest body in bytes of which a difference shows lines; of larger ones it shows sizes and digests."""

Changes = dict[str, Any]
"""Changes of an edit by the name of the field, each with `from` and `to`; of a body of text a unified diff."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that are the same for each message.

    A property of `properties` that is `None` is removed, as are the headers in `without`; `body` replaces the whole
    body.
    """

    properties: Mapping[str, Any] = {}
    headers: Mapping[str, Any] = {}
    without: tuple[str, ...] = ()
    body: bytes | None = None

    def check(self) -> None:
        """Raise `LineError` if a property has a wrong name or type."""
        properties_of({name: value for name, value in self.properties.items() if value is not None})
        properties_of({"headers": dict(self.headers)})

    async def of(self, message: HeldMessage) -> tuple[Properties, bytes]:
        """Return the properties and the body of a message with the changes: a `Change`."""
        given = properties_of({name: value for name, value in self.properties.items() if value is not None})
        changes = {name: getattr(given, name) for name in self.properties}
        properties = msgspec.structs.replace(message.properties, **changes)
        if self.headers or self.without:
            kept = without(properties.headers or Table(), *self.without, *self.headers)
            added = properties_of({"headers": dict(self.headers)}).headers or Table()
            properties = with_headers(properties, Table([*kept.fields, *added.fields]))
        return properties, message.body if self.body is None else self.body


def changes_of(message: HeldMessage, properties: Properties, body: bytes) -> Changes:
    """Return what differs between a message and its edited form."""
    before, after = message.properties.present(), properties.present()
    found = _differences(
        json_mapping({name: value for name, value in before.items() if name != "headers"}),
        json_mapping({name: value for name, value in after.items() if name != "headers"}),
        "properties.",
    )
    found |= _differences(
        json_mapping(message.properties.headers or {}), json_mapping(properties.headers or {}), "headers."
    )
    if body != message.body:
        found["body"] = _of_bodies(message.body, body)
    return found


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> Changes:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {prefix + name: {"from": before.get(name), "to": after.get(name)} for name in names}


def _of_bodies(before: bytes, after: bytes) -> Changes:
    """Return both bodies if they are short, lines that differ if they are text, or sizes and digests."""
    texts = json_value(before), json_value(after)
    if max(len(before), len(after)) <= MAX_TEXT and all(isinstance(each, str) for each in texts):
        lines = difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), "before", "after", lineterm="")
        return {"diff": "\n".join(lines)}
    return {"from": _fingerprint(before), "to": _fingerprint(after)}


def _fingerprint(body: bytes) -> Changes:
    return {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
