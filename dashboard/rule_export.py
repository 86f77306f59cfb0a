"""Export of an observed command as a rule in shadow mode that matches it, for an operator to complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import Properties

_MATCHED = ("exchange", "destination", "queue", "routing_key")
"""Arguments that `match` names directly."""

_PLAIN = re.compile(r"[\w. -]{0,200}", re.ASCII)
"""Names without pattern characters, which a match can hold as they are."""


def rule_of(method: Method, properties: Properties, user: str | None, vhost: str | None) -> Iterator[str]:
    """Yield the lines of a YAML file with one rule that matches this command."""
    match: dict[str, Any] = {"method": method.name}
    conditions = []
    for name in _MATCHED:
        value = getattr(method, name, None)
        if not isinstance(value, str):
            continue
        if _PLAIN.fullmatch(value) and value:
            match[name] = value
        else:
            conditions.append(f"{name} == {_cel(value)}")
    for name, value in (("user", user), ("vhost", vhost)):
        if value and _PLAIN.fullmatch(value):
            match[name] = value
        elif value:
            conditions.append(f"{name} == {_cel(value)}")
    for name in ("content_type", "type", "app_id"):
        value = getattr(properties, name)
        if value:
            conditions.append(f"properties.{name} == {_cel(value)}")
    rule: dict[str, Any] = {"name": f"copied {method.name}", "action": "log", "mode": "shadow", "match": match}
    if conditions:
        rule["when"] = " && ".join(conditions)
    yield "# Made by the dashboard of a command that passed. Choose an action; without `mode`, the rule acts.\n"
    yield yaml.safe_dump({"rules": [rule]}, sort_keys=False, allow_unicode=True, width=120)


def _cel(text: str) -> str:
    """Return a text as a CEL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'
