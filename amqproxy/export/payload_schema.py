"""A JSON Schema that all observed values satisfy, as narrow as their types, but not as narrow as the values.

It is bounded: an object with too many different names becomes a map, and values that are nested too deeply, or for
which the budget has no room, are unconstrained.
"""

from __future__ import annotations

import re
from typing import Any

from amqproxy.rules.matching.generated_names import Generated, parts_of

MAX_NAMES = 100
"""Names of an object that are distinguished; with more, they are keys of a map."""

MAX_DEPTH = 20
"""Maximum nesting of objects and arrays; anything below is unconstrained."""

MAX_NODES = 2000
"""Nodes of one schema, unless it shares a budget."""


class NodeBudget:
    """Remaining nodes of all schemas that share the budget."""

    __slots__ = ("left",)

    def __init__(self, most: int = MAX_NODES) -> None:
        self.left = most


_FORMATS = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII),
    "date": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    "uuid": re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE),
}


class PayloadSchema:
    """Learns from values as returned by `json.loads`; `count` is the number of values."""

    __slots__ = (
        "_budget",
        "_depth",
        "_formats",
        "_has_unknown_items",
        "_has_unknown_names",
        "_is_anything",
        "_is_map",
        "_items",
        "_map",
        "_names",
        "_objects",
        "_types",
        "count",
    )

    def __init__(self, budget: NodeBudget | None = None, depth: int = 0) -> None:
        self.count = 0
        self._budget = budget or NodeBudget()
        self._depth = depth
        self._has_unknown_names = False
        self._has_unknown_items = False
        self._is_anything = False
        self._types: set[str] = set()
        self._formats: set[str] | None = None
        self._objects = 0
        self._names: dict[str, PayloadSchema] = {}
        self._is_map = False
        self._map: PayloadSchema | None = None
        self._items: PayloadSchema | None = None

    def learn(self, value: Any) -> None:
        """Widen the schema to include a value."""
        self.count += 1
        if isinstance(value, dict):
            self._types.add("object")
            if self._depth < MAX_DEPTH:
                self._learn_object(value)
        elif isinstance(value, list):
            self._types.add("array")
            if self._depth < MAX_DEPTH:
                self._items = self._items or self._inner()
                self._has_unknown_items = self._has_unknown_items or self._items is None
                if self._items is not None:
                    for item in value:
                        self._items.learn(item)
        elif isinstance(value, str):
            self._types.add("string")
            formats = {name for name, pattern in _FORMATS.items() if pattern.fullmatch(value)}
            self._formats = formats if self._formats is None else self._formats & formats
        else:
            kinds = {bool: "boolean", int: "integer", float: "number", type(None): "null"}
            self._types.add(kinds.get(type(value), "string"))

    def _learn_object(self, value: dict[str, Any]) -> None:
        self._objects += 1
        for name, each in value.items():
            inner = self._of(name)
            if inner is not None:
                inner.learn(each)

    def _inner(self) -> PayloadSchema | None:
        """Return a new schema nested in this one; None if the budget is exhausted."""
        if self._budget.left <= 0:
            return None
        self._budget.left -= 1
        return PayloadSchema(self._budget, self._depth + 1)

    def _of(self, name: str) -> PayloadSchema | None:
        """Return the schema of a name's values; None if the budget is exhausted."""
        found = self._names.get(name)
        if found is not None:
            return found
        if len(self._names) >= MAX_NAMES and not is_generated(name):
            self._become_map()
        if self._is_map or is_generated(name):
            found = self._map = self._map or self._inner()
        else:
            found = self._inner()
            if found is not None:
                self._names[name] = found
        self._has_unknown_names = self._has_unknown_names or found is None
        return found

    def _become_map(self) -> None:
        """Treat all names as keys of a map."""
        self._is_map = True
        for each in self._names.values():
            if self._map is None:
                self._map = each
            else:
                self._map.add(each)
        self._names.clear()

    def add(self, other: PayloadSchema) -> None:
        """Widen the schema to include all values learnt by another."""
        self.count += other.count
        self._types |= other._types
        if other._formats is not None:
            self._formats = set(other._formats) if self._formats is None else self._formats & other._formats
        self._objects += other._objects
        self._has_unknown_names = self._has_unknown_names or other._has_unknown_names
        if other._has_unknown_names:
            for name, each in self._names.items():
                each._is_anything = each._is_anything or name not in other._names
        self._is_anything = self._is_anything or other._is_anything
        if other._is_map:
            self._become_map()
        for name, each in other._names.items():
            inner = self._of(name)
            if inner is not None:
                inner.add(each)
        if other._map is not None:
            self._map = self._map or self._inner()
            if self._map is None:
                self._has_unknown_names = True
            else:
                self._map.add(other._map)
        self._has_unknown_items = self._has_unknown_items or other._has_unknown_items
        if other._items is not None:
            self._items = self._items or self._inner()
            if self._items is None:
                self._has_unknown_items = True
            else:
                self._items.add(other._items)

    def to_json(self) -> dict[str, Any]:
        """Return the schema; {} if it is unconstrained."""
        types = self._types - ({"integer"} if "number" in self._types else set())
        if not types or self._is_anything:
            return {}
        schema: dict[str, Any] = {"type": next(iter(types)) if len(types) == 1 else sorted(types)}
        if self._formats:
            schema["format"] = sorted(self._formats)[0]
        if self._names:
            schema["properties"] = {name: each.to_json() for name, each in self._names.items()}
            required = [name for name, each in self._names.items() if each.count == self._objects]
            if required:
                schema["required"] = required
        if self._map is not None and not self._has_unknown_names:
            schema["additionalProperties"] = self._map.to_json()
        if self._items is not None and self._items.count and not self._has_unknown_items:
            schema["items"] = self._items.to_json()
        return schema


def is_generated(name: str) -> bool:
    """Whether an entry's name is a key, such as a UUID or a number, rather than a word."""
    parts = parts_of(name)
    return any(part.generated is not None and part.is_certain for part in parts) or (
        len(parts) == 1 and parts[0].generated is Generated.NUMBER
    )
