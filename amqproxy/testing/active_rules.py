"""The rules that are in force while `with` blocks run."""

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
"""The keys of a fault rule that are not of the fault itself."""


def rules_of(source: str | Mapping[str, Any]) -> tuple[AnyRule, ...]:
    """The rules in a text, as in a TOML config file, or the one rule in a mapping. `ConfigError` when it is wrong."""
    if isinstance(source, str):
        return read(source, Path("rules.toml")).rules
    return from_data({"rules": [dict(source)]}, Path("rules")).rules


def fault_rule(kind: str, number: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The rule of a fault; `settings` are its keys, and those of the rule."""
    of_rule = {key: value for key, value in settings.items() if key in _OF_RULE}
    of_fault = {key: value for key, value in settings.items() if key not in _OF_RULE}
    return {"name": f"{kind} {number}", "action": "fault", **of_rule, "fault": {"kind": kind, **of_fault}}


class ActiveRules:
    """Rules by the blocks that they were added in, the outermost first. Blocks may end in any order."""

    def __init__(self) -> None:
        self._blocks: list[tuple[AnyRule, ...]] = []

    def add(self, rules: tuple[AnyRule, ...]) -> tuple[AnyRule, ...]:
        """All rules, with these after those of before. `ValueError`, and no change, when they do not go together."""
        Config(rules=(*self.all(), *rules))
        self._blocks.append(rules)
        return self.all()

    def remove(self, rules: tuple[AnyRule, ...]) -> tuple[AnyRule, ...]:
        """All rules, without these, which were added before."""
        self._blocks = [each for each in self._blocks if each is not rules]
        return self.all()

    def all(self) -> tuple[AnyRule, ...]:
        """The rules in force."""
        return tuple(chain.from_iterable(self._blocks))
