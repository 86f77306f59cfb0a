"""Rules that are in force while `with` blocks run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from amqproxy.configuration.config import Config
from amqproxy.configuration.config_file import from_data, read
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.faults.fault import Fault

_OF_RULE = frozenset(Fault.__struct_fields__) - {"fault"}
"""Keys of a fault rule besides those of the fault itself."""


def rules_of(source: str | Mapping[str, Any]) -> tuple[AnyRule, ...]:
    """Return the rules in a TOML text, or the one rule in a mapping; raise `ConfigError` if they are invalid."""
    if isinstance(source, str):
        return read(source, Path("rules.toml")).rules
    return from_data({"rules": [dict(source)]}, Path("rules")).rules


def fault_rule(kind: str, number: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rule of a fault; `settings` are keys of the rule and of its `fault` table."""
    of_rule = {key: value for key, value in settings.items() if key in _OF_RULE}
    of_fault = {key: value for key, value in settings.items() if key not in _OF_RULE}
    return {"name": f"{kind} {number}", "action": "fault", **of_rule, "fault": {"kind": kind, **of_fault}}


class ActiveRules:
    """Rules by the blocks that added them, the outermost first. Blocks may end in any order."""

    def __init__(self) -> None:
        self._blocks: list[tuple[AnyRule, ...]] = []

    def add(self, rules: tuple[AnyRule, ...]) -> tuple[AnyRule, ...]:
        """Append rules and return all; raise `ValueError`, without a change, if they are incompatible."""
        Config(rules=(*self.all(), *rules))
        self._blocks.append(rules)
        return self.all()

    def remove(self, rules: tuple[AnyRule, ...]) -> tuple[AnyRule, ...]:
        """Remove rules that were added before, and return the others."""
        self._blocks = [each for each in self._blocks if each is not rules]
        return self.all()

    def all(self) -> tuple[AnyRule, ...]:
        """Return the rules in force."""
        return tuple(chain.from_iterable(self._blocks))
