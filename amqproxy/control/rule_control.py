"""An operator's control of the rules of a running proxy: check, set, show, and switch the mode of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from amqproxy.configuration.config import ConfigError, NamedUpstream
from amqproxy.configuration.config_file import rules_of_data, rules_of_text
from amqproxy.control.request import CheckRules, EnforceRule, SetRules, ShadowRule
from amqproxy.control.request_error import RequestError
from amqproxy.process.log import logger
from amqproxy.process.supervision import describe
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.engine.rule_warnings import find_warnings
from amqproxy.rules.rule import Rule
from amqproxy.rules.suggestions import did_you_mean

_SUFFIXES = {"toml": ".toml", "yaml": ".yaml", "json": ".yaml"}  # JSON is YAML, with lines to name


class RuleOwner(Protocol):
    """The owner of the rules: the part of a `ProxyServer` that `RuleControl` uses."""

    rules: RuleSet

    def apply_rules(self, rules: RuleSet) -> None:
        """Replace the rules in force."""


class ReadRules(NamedTuple):
    """Valid rules, and the response about them."""

    rules: tuple[AnyRule, ...]
    answer: dict[str, Any]


class RuleControl:
    """The rules of one proxy, which an operator may replace until the config file is read again.

    `upstreams` returns those that rules may name; the files that rules name are relative to `directory`.
    """

    def __init__(
        self,
        owner: RuleOwner,
        upstreams: Callable[[], Mapping[str, NamedUpstream]] = dict,
        directory: Path = Path(),
    ) -> None:
        self._owner = owner
        self._upstreams = upstreams
        self._directory = directory
        self._own: RuleSet | None = None

    def check(self, request: CheckRules | SetRules) -> dict[str, Any]:
        """Return the number of a request's rules, and warnings about them. `RequestError` with `wrong-rules`."""
        return self.read(request).answer

    def set(self, request: SetRules) -> dict[str, Any]:
        """Replace the rules until the next reload. `RequestError` with `wrong-rules`: nothing has changed then."""
        return self.apply(self.read(request))

    def read(self, request: CheckRules | SetRules) -> ReadRules:
        """Read a request's rules. `RequestError` with `wrong-rules`. For any thread, since many rules take long."""
        rules = self._rules_of(request)
        return ReadRules(rules, {"rules": len(rules), "warnings": list(find_warnings(rules))})

    def apply(self, found: ReadRules) -> dict[str, Any]:
        """Put rules from `read` in force until the next reload."""
        self._apply(found.rules)
        logger().info("rules set", rules=len(found.rules), until="the next reload")
        return found.answer | {"until": "reload"}

    def switch(self, request: ShadowRule | EnforceRule) -> dict[str, Any]:
        """Switch one rule to enforce or to shadow mode until the next reload. `RequestError` with `no-rule`."""
        mode = "shadow" if isinstance(request, ShadowRule) else "enforce"
        rules = self._owner.rules.rules
        if all(rule.name != request.rule for rule in rules):
            close = did_you_mean(request.rule, [rule.name for rule in rules])
            raise RequestError("no-rule", f"there is no rule '{request.rule}'{close}")
        if any(rule.name == request.rule and rule.mode != mode for rule in rules):
            self._apply([_in_mode(rule, mode) if rule.name == request.rule else rule for rule in rules])
            logger().info("rule switched", rule=request.rule, mode=mode, until="the next reload")
        return {"rule": request.rule, "mode": mode, "until": "reload"}

    def get(self) -> dict[str, Any]:
        """Return the rules in force, as a config has them, and their source: "control" or "file"."""
        source = "control" if self._owner.rules is self._own else "file"
        return {"rules": [_as_config(rule) for rule in self._owner.rules.rules], "source": source}

    def _apply(self, rules: Iterable[Rule]) -> None:
        self._own = self._owner.rules.replaced(rules)
        self._owner.apply_rules(self._own)

    def _rules_of(self, request: CheckRules | SetRules) -> tuple[AnyRule, ...]:
        try:
            if request.text is None:
                return rules_of_data(
                    {"rules": request.rules}, Path(request.name), self._upstreams(), directory=self._directory
                )
            path = Path(request.name).with_suffix(_SUFFIXES[request.format])
            return rules_of_text(
                request.text, path, self._upstreams(), directory=self._directory, shown=Path(request.name)
            )
        except ConfigError as error:
            raise RequestError("wrong-rules", str(error)) from None
        except Exception as error:  # noqa: BLE001 - whatever is wrong with them, the rules there are still hold
            raise RequestError("wrong-rules", f"{request.name}: {describe(error)}") from None


def _in_mode(rule: Rule, mode: str) -> Rule:
    """Return the rule in another mode, with its values from files and environment variables."""
    switched = msgspec.structs.replace(rule, mode=mode)
    switched.__dict__.update(rule.__dict__)
    return switched


def _as_config(value: Any) -> Any:
    """Return a part of a config as one would write it, without default values."""
    if not isinstance(value, msgspec.Struct):
        if isinstance(value, (tuple, list)):
            return [_as_config(each) for each in value]
        if isinstance(value, dict):
            return {key: _as_config(each) for key, each in value.items()}
        return msgspec.to_builtins(value)
    config = value.__struct_config__
    found = {} if config.tag is None else {config.tag_field: config.tag}
    for field in msgspec.structs.fields(value):
        own = getattr(value, field.name)
        usual = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if own != usual:
            found[field.encode_name] = _as_config(own)
    return found
