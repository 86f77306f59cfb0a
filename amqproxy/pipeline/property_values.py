"""Message properties as columns of `events`: all in JSON, and one column each."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Table
from amqproxy.taps.record import encoded, json_mapping, json_value
from amqproxy.taps.trace.events import MessageProperties

MAX_KNOWN_HEADERS = 1024
"""Maximum number of header tables whose JSON is cached."""
MAX_KNOWN_HEADERS_BYTES = 4096
"""Maximum size of a cached one."""

_FIELDS = Properties.__struct_fields__
_RENAMED = {"timestamp": "message_timestamp", "type": "message_type"}

PROPERTY_COLUMNS = ("properties", *(_RENAMED.get(name, name) for name in _FIELDS))
"""Columns, in the order of the values."""

_NONE = (None,) * len(PROPERTY_COLUMNS)
_HEADERS = _FIELDS.index("headers")
_json_encoder = msgspec.json.Encoder()


class PropertyValues:
    """Columns of `properties`, which are often equal in consecutive messages."""

    __slots__ = ("_headers", "columns", "properties", "size")

    def __init__(self) -> None:
        self.properties: MessageProperties = NO_PROPERTIES
        self.columns: tuple[Any, ...] = _NONE
        self.size = 0
        """Approximate size of their texts, in bytes."""
        self._headers: dict[bytes, bytes] = {}

    def read(self, properties: MessageProperties) -> None:
        """Set the properties of the next rows."""
        self.properties = properties
        self.size = 0
        if isinstance(properties, Properties):
            self.columns = self._columns_of(properties)
        else:
            self.columns = self._columns_of_others(properties)

    def _columns_of(self, properties: Properties) -> tuple[Any, ...]:
        if properties is NO_PROPERTIES:
            return _NONE
        values = list(msgspec.structs.astuple(properties))
        headers = values[_HEADERS]
        if headers is None:
            present = {name: value for name, value in zip(_FIELDS, values, strict=True) if value is not None}
            if not present:
                return _NONE
            text = encoded(json_mapping(present))
        else:
            values[_HEADERS] = text = self._headers_of(headers)
            rest = {name: value for name, value in zip(_FIELDS, values, strict=True) if value is not None}
            rest = json_mapping(rest)
            rest["headers"] = msgspec.Raw(text)
            try:
                text = _json_encoder.encode(rest)
            except UnicodeEncodeError:
                text = encoded(json_mapping(properties.present()))
            self.size = len(text)
        self.size += len(text)
        return (text, *values)

    def _columns_of_others(self, properties: Any) -> tuple[Any, ...]:
        """Return properties in JSON by their protocol's names, and in the columns of their 0-9-1 counterparts."""
        present = properties.present()
        if not present:
            return _NONE
        text = encoded(present)
        values = [getattr(properties, name) for name in _FIELDS]
        if values[_HEADERS] is not None:
            values[_HEADERS] = encoded(present["application_headers"])
        self.size = len(text) + len(values[_HEADERS] or b"")
        return (text, *values)

    def _headers_of(self, headers: Table) -> bytes:
        """Return a header table in JSON, cached, since many messages have equal ones."""
        key = headers.octets
        text = self._headers.get(key)
        if text is None:
            text = encoded(json_value(headers))
            if len(key) <= MAX_KNOWN_HEADERS_BYTES:
                if len(self._headers) >= MAX_KNOWN_HEADERS:
                    self._headers.clear()
                self._headers[key] = text
        return text
