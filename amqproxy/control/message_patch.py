"""An operator's changes to a held command."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import CommandContext
from amqproxy.rules.rewriting.edit import PROPERTIES, Edit, as_letter

UNEDITABLE = frozenset({"delivery_tag", "multiple", "no_wait", "consumer_tag"})
"""Fields that must be the same for both peers, and so cannot be edited."""


class Base64Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are not text, as records show them."""

    base64: str


class MessagePatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """New values by their names, as records have them; null takes an entry of a table, or a property, away.

    `fields` are those of the method, in whose tables the entries that are not named stay. A `body` is the whole of it.
    """

    fields: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    headers: dict[str, Any] = {}
    body: str | Base64Bytes | None = None

    def of(self, command: Command, context: CommandContext) -> Command:
        """Return the command with the changes applied. `ValueError` if a change is not possible."""
        method = self._method(command.method, context)
        if not method.carries_content:
            if self.properties or self.headers or self.body is not None:
                raise ValueError(f"{method.name} has no properties, headers or body")
            return command.altered(method)
        properties = self._properties(command.properties, context)
        return command.altered(method, properties, None if self.body is None else _bytes_of(self.body))

    def covered(self, before: Command, shown: Command, after: Command) -> Command:
        """Return `after` as taps may see it, redacted in the fields in which `shown` redacts `before`."""
        method = _covered(before.method, shown.method, after.method)
        if not method.carries_content:
            return Command(after.channel, method)
        properties = _covered(before.properties, shown.properties, after.properties)
        body = after.body if shown.body == before.body else shown.body
        return Command(after.channel, method, properties, body)

    def _method(self, method: Method, context: CommandContext) -> Method:
        changes = {}
        fields = dict(method.spoken)
        letters = dict(zip(method.__struct_fields__, method.layout.decode(), strict=True))
        for name, value in self.fields.items():
            field = fields.get(name)
            if field is None:
                raise ValueError(f"`{name}` is not a field of {method.name}: there are {', '.join(fields)}")
            if field in UNEDITABLE:
                raise ValueError(f"`{name}` cannot be edited: the two peers would no longer agree")
            changes[field] = _as_field(name, letters[field], value, getattr(method, field), context)
        return replace(method, **changes) if changes else method

    def _properties(self, properties: Properties, context: CommandContext) -> Properties:
        for name in self.properties:
            if name not in PROPERTIES:
                raise ValueError(f"`{name}` is not a property of a message: there are {', '.join(PROPERTIES)}")
        properties = _edit(self.properties).of_properties(properties, context)
        if self.headers:
            headers = _edited_table(properties.headers or Table(), self.headers, context)
            properties = replace(properties, headers=headers)
        return properties


def _as_field(name: str, letter: str, value: Any, old: Any, context: CommandContext) -> Any:
    if letter == "F":
        if not isinstance(value, Mapping):
            raise ValueError(f"`{name}` is a table, not {value!r}")
        return _edited_table(old, value, context)
    if letter == "S":
        return _bytes_of(value)
    if letter in "su":
        text = _bytes_of(value).decode("utf-8", "surrogateescape")
        if letter == "s" and not _is_sound(text):
            raise ValueError(f"`{name}` must be UTF-8")
        return as_letter(letter, name, text)
    return as_letter(letter, name, value)


def _edited_table(table: Table, values: Mapping[str, Any], context: CommandContext) -> Table:
    try:
        return _edit(values).of_table(table, context)
    except (struct.error, OverflowError, TypeError) as error:
        raise ValueError(str(error)) from None


def _edit(values: Mapping[str, Any]) -> Edit:
    """Return the changes as a rule's `Edit`; texts and names are literal, without templates or patterns."""
    there = {name: _literal(value) for name, value in values.items() if value is not None}
    return Edit(set=there, remove=tuple(f"is:{name}" for name, value in values.items() if value is None))


def _literal(value: Any) -> Any:
    return value.replace("{", "{{").replace("}", "}}") if isinstance(value, str) else _from_json(value)


def _from_json(value: Any) -> Any:
    """Return a JSON value with each `{"base64": …}` decoded to bytes."""
    if isinstance(value, Mapping):
        if value.keys() == {"base64"} and isinstance(value["base64"], str):
            return _base64_decoded(value["base64"])
        return {name: _from_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_from_json(each) for each in value]
    return value


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, Base64Bytes):
        return _base64_decoded(value.base64)
    decoded = _from_json(value)
    if isinstance(decoded, bytes):
        return decoded
    if isinstance(decoded, (dict, list)) or decoded is None:
        raise ValueError(f"{value!r} is no text")
    return str(decoded).encode("utf-8", "surrogateescape")


def _base64_decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:40]!r} is no base64: {error}") from None


def _is_sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _covered(before: Any, shown: Any, after: Any) -> Any:
    """Return `after`, with the values of `shown` where they differ from `before`; tables entry by entry."""
    if isinstance(before, Table) and isinstance(shown, Table) and isinstance(after, Table):
        masks = {field.name: field for field in shown.fields if before.get(field.name) != field.value}
        return Table([masks.get(field.name, field) for field in after.fields])
    if isinstance(before, msgspec.Struct):
        names = before.__struct_fields__
        return replace(after, **{n: _covered(getattr(before, n), getattr(shown, n), getattr(after, n)) for n in names})
    return after if before == shown else shown
