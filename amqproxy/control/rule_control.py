"""An operator's control of the rules of a running proxy: check, set, show, switch one, add one for some time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import trio

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.config_file import rules_of_data, rules_of_text
from amqproxy.configuration.upstream_config import NamedUpstream
from amqproxy.control.request import AddRule, CheckRules, EndRule, EnforceRule, RemoveRule, SetRules, ShadowRule
from amqproxy.control.request_error import RequestError
from amqproxy.process.log import logger
from amqproxy.process.supervision import describe
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.engine.rule_warnings import find_warnings
from amqproxy.rules.rule import Rule
from amqproxy.rules.suggestions import did_you_mean

MAX_TEMPORARY = 100
"""Maximum number of temporary rules."""

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

    Temporary rules precede them, and end by `expire`. `upstreams` returns those that rules may name; the files that
    rules name are relative to `directory`.
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
        self._deadlines: dict[str, float] = {}
        self._added = trio.Event()

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
        if any(rule.name == request.rule for rule in self._owner.rules.bridging):
            raise RequestError("no-rule", f"'{request.rule}' is a rule of the upstream's bridge, which always acts")
        if any(rule.name == request.rule and rule.mode != mode for rule in rules):
            if request.rule in self._deadlines:
                self._replace_temporary([_switched(rule, request.rule, mode) for rule in self._owner.rules.temporary])
            else:
                self._apply([_switched(rule, request.rule, mode) for rule in self._owner.rules.lasting])
            logger().info("rule switched", rule=request.rule, mode=mode, until="the next reload")
        return {"rule": request.rule, "mode": mode, "until": "reload"}

    def remove(self, request: RemoveRule) -> dict[str, Any]:
        """Remove a lasting rule until the next reload. `RequestError` with `no-rule`."""
        lasting = self._owner.rules.lasting
        left = [rule for rule in lasting if rule.name != request.rule]
        if len(left) == len(lasting):
            close = did_you_mean(request.rule, [rule.name for rule in lasting])
            raise RequestError("no-rule", f"there is no lasting rule '{request.rule}'{close}")
        self._apply(left)
        logger().info("rule removed", rule=request.rule, until="the next reload")
        return {"rule": request.rule, "rules": len(left), "until": "reload"}

    def get(self) -> dict[str, Any]:
        """Return the rules in force, as a config has them, and their source: "control" or "file"."""
        source = "control" if self._owner.rules is self._own else "file"
        rules = self._owner.rules
        return {
            "rules": [_as_config(rule) for rule in rules.lasting],
            "temporary": [_as_config(rule) for rule in rules.temporary],
            "bridge": [_as_config(rule) for rule in rules.bridging],
            "source": source,
        }

    def _apply(self, rules: Iterable[Rule]) -> None:
        self._own = self._owner.rules.replaced(rules)
        self._owner.apply_rules(self._own)

    # --- temporary rules

    def read_one(self, request: AddRule) -> AnyRule:
        """Return the temporary rule of a request; raise `RequestError` with code `wrong-rules`. Safe in any thread."""
        [rule] = self._rules_of(CheckRules(rules=[request.rule], name="rule"))
        return rule

    def add(self, request: AddRule, rule: AnyRule) -> dict[str, Any]:
        """Put a rule from `read_one` in force until its time is over, or it is ended. `RequestError` with `busy`."""
        rules = self._owner.rules
        if len(rules.temporary) >= MAX_TEMPORARY:
            raise RequestError("busy", f"there are {MAX_TEMPORARY} temporary rules already: end one")
        taken = {each.name for each in rules.rules}
        names = itertools.chain([rule.name], (f"{rule.name} {number}" for number in itertools.count(2)))
        added = _changed(rule, name=next(name for name in names if name not in taken))
        self._deadlines[added.name] = trio.current_time() + request.seconds
        self._replace_temporary((added, *rules.temporary))
        self._added.set()
        action = type(rule).__struct_config__.tag
        logger().info("temporary rule added", rule=added.name, action=action, seconds=request.seconds)
        return {"rule": added.name, "seconds": request.seconds, "warnings": list(find_warnings([added]))}

    def end(self, request: EndRule) -> dict[str, Any]:
        """End a temporary rule now. `RequestError` with `no-rule`."""
        if not self._end(request.rule):
            close = did_you_mean(request.rule, [rule.name for rule in self._owner.rules.temporary])
            raise RequestError("no-rule", f"there is no temporary rule '{request.rule}'{close}")
        logger().info("temporary rule ended", rule=request.rule)
        return {"rule": request.rule}

    def insert(self, rule: AnyRule) -> None:
        """Put a rule before all others until it is withdrawn, in place of a temporary one with its name."""
        self._deadlines[rule.name] = math.inf
        self._replace_temporary((rule, *(each for each in self._owner.rules.temporary if each.name != rule.name)))

    def withdraw(self, name: str) -> None:
        """Remove a rule of `insert`, if it is there."""
        self._end(name)

    def ends_at(self, name: str, ahead: float) -> float | None:
        """Return when a temporary rule ends, on a clock `ahead` of trio's; None for a rule without a known end."""
        is_temporary = any(rule.name == name for rule in self._owner.rules.temporary)
        ends_at = self._deadlines[name] + ahead if is_temporary else math.inf
        return None if math.isinf(ends_at) else ends_at

    async def expire(self) -> None:
        """End temporary rules when their time is over, until cancelled."""
        while True:
            self._added = trio.Event()
            with trio.move_on_at(min(self._deadlines.values(), default=math.inf)):
                await self._added.wait()
            for name in [name for name, deadline in self._deadlines.items() if deadline <= trio.current_time()]:
                if self._end(name):
                    logger().info("temporary rule expired", rule=name)

    def _end(self, name: str) -> bool:
        """End a temporary rule; return whether it was in force."""
        self._deadlines.pop(name, None)
        temporary = self._owner.rules.temporary
        left = [rule for rule in temporary if rule.name != name]
        if len(left) == len(temporary):
            return False
        self._replace_temporary(left)
        return True

    def _replace_temporary(self, temporary: Iterable[Rule]) -> None:
        before = self._owner.rules
        rules = before.replaced(before.lasting, temporary)
        if self._own is before:
            self._own = rules
        self._owner.apply_rules(rules)

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


def _switched(rule: Rule, name: str, mode: str) -> Rule:
    """Return a rule in another mode if it has this name."""
    return _changed(rule, mode=mode) if rule.name == name else rule


def _changed(rule: Rule, **keys: Any) -> Rule:
    """Return the rule with other keys, with its values from files and environment variables."""
    changed = msgspec.structs.replace(rule, **keys)
    changed.__dict__.update(rule.__dict__)
    return changed


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
