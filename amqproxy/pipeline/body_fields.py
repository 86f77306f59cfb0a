"""Fields of message bodies: path, type, and the kind of personal data that they hold; never their values.

    {"id": 7, "lines": [{"to": "ada@example.org"}]}

has `$` (object), `$.id` (integer), `$.lines` (array), `$.lines[]` (object) and `$.lines[].to` (string, e-mail). Names
that look generated, or are personal data themselves, are `*`. A body that is not JSON has `$` only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from amqproxy.export.payload_schema import is_generated
from amqproxy.pipeline.personal_data import held_by, named
from amqproxy.pipeline.span import HOUR

MAX_BODY = 64 * 1024
"""Bytes of the largest body that is inspected."""

MAX_VALUES = 1000
"""Values of a body that are inspected."""

MAX_DEPTH = 16
"""Maximum nesting of objects and arrays that are inspected."""

MAX_NAME = 64
"""Characters of a name that a path shows."""

EVERY = 100
"""Messages of an hour, exchange or queue and connection that are all inspected; of the others, one in as many is."""

MAX_COUNTED = 1000
"""Exchanges and queues of a connection whose messages are counted."""

REST = "…"
"""Path of the values beyond a bound."""

_WORD = re.compile(r"[\w-]+", re.ASCII)
_TYPES = {bool: "boolean", int: "integer", float: "number", type(None): "null", str: "string"}


class Field(NamedTuple):
    """A path in a body, and the type of its value; or, besides, the kind of personal data that the value `holds`."""

    path: str
    kind: str
    holds: str | None = None


class Sampling:
    """Choice of the messages whose bodies are inspected, by their order on a connection, wherever runs are divided."""

    __slots__ = ("_counts", "_hour")

    def __init__(self) -> None:
        self._hour = 0
        self._counts: Counter[tuple[str, str | None]] = Counter()

    def takes(self, ts_ns: int, exchange: str, queue: str | None) -> bool:
        """Count a message; return whether it is inspected."""
        hour = ts_ns // HOUR
        if hour != self._hour or len(self._counts) >= MAX_COUNTED:
            self._hour = hour
            self._counts.clear()
        self._counts[exchange, queue] += 1
        count = self._counts[exchange, queue]
        return count <= EVERY or count % EVERY == 0


def fields_of(body: bytes, size: int | None) -> set[Field]:
    """Return the fields of a body of `size` bytes, within the bounds."""
    if size is None or len(body) < size:
        return {Field("$", "not inspected")}
    if not body:
        return {Field("$", "empty")}
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return _text(body)
    return _of_value(value)


def _text(body: bytes) -> set[Field]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {Field("$", "binary")}
    holds = held_by(text)
    return {Field("$", "text")} | ({Field("$", "text", holds)} if holds else set())


def _of_value(body: Any) -> set[Field]:
    found: set[Field] = set()
    seen = 0
    waiting: list[tuple[str, str, int, Any]] = [("$", "", 0, body)]
    while waiting:
        path, name, depth, value = waiting.pop()
        seen += 1
        room = max(0, MAX_VALUES - seen - len(waiting))
        if isinstance(value, dict | list):
            found.add(Field(path, "object" if isinstance(value, dict) else "array"))
            if len(value) > room or (value and depth >= MAX_DEPTH):
                found.add(Field(REST, "not inspected"))
            if depth >= MAX_DEPTH:
                continue
            if isinstance(value, dict):
                entries = islice(value.items(), room)
                waiting += [(path + _step(key), key, depth + 1, each) for key, each in entries]
            else:
                waiting += [(f"{path}[]", name, depth + 1, each) for each in islice(value, room)]
            continue
        kind = _TYPES.get(type(value), "string")
        found.add(Field(path, kind))
        if value is None or isinstance(value, bool) or value == "":
            continue
        holds = held_by(value) or (named(name) if name else None)
        if holds is not None:
            found.add(Field(path, kind, holds))
    return found


def _step(name: str) -> str:
    """Return the part of a path for an entry of an object."""
    if is_generated(name) or held_by(name) is not None:
        return ".*"
    shown = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
    return f".{shown}" if _WORD.fullmatch(name) else f"[{json.dumps(shown, ensure_ascii=False)}]"
