"""The `script` action: a rule written in Python; see `api` for its interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec.structs

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BY_NAME
from amqproxy.rules.context import CommandContext
from amqproxy.rules.resources import Resources
from amqproxy.rules.rule import Rule, RuleState, Stateful
from amqproxy.rules.scripting import script_loader
from amqproxy.rules.scripting.api import Context
from amqproxy.rules.sendable import Unsendable, check_types
from amqproxy.rules.verdict import Stage, Verdict

STAGES = {"method": Stage.METHOD, "header": Stage.HEADER, "body": Stage.BODY}


class Script(Rule, Stateful, frozen=True, tag="script"):
    """Decide about a command by a function in a Python file.

    `reads` is the part of a message that its functions read; the rest is not waited for, and not available.
    """

    file: str
    reads: Literal["method", "header", "body"] = "body"

    makes_unchecked_values = True
    drops_confirms = True

    @property
    def needs(self) -> Stage:
        return STAGES[self.reads]

    @property
    def methods(self) -> frozenset[str] | None:
        if not self.hooks:
            return None  # known once the file has been read
        if script_loader.ANY in self.hooks:
            return frozenset(BY_NAME)
        return frozenset(script_loader.HOOKS[name] for name in self.hooks if name in script_loader.HOOKS)

    @property
    def reads_unacked(self) -> bool:
        return bool(self.hooks) and may_drop_deliveries(self)

    @property
    def hooks(self) -> Mapping[str, Callable[..., Any]]:
        """The script's functions by name; empty before `resolved`."""
        found: Mapping[str, Callable[..., Any]] = self.__dict__.get("hooks_of_file", {})
        return found

    def resolved(self, resources: Resources) -> Rule:
        hooks = script_loader.hooks(resources.text(self.file), self.file)
        rule = msgspec.structs.replace(self)
        by_method = {script_loader.HOOKS[name]: hook for name, hook in hooks.items() if name in script_loader.HOOKS}
        rule.__dict__.update(hooks_of_file=hooks, hooks_by_method=by_method, shared_by_all={})
        if script_loader.LOAD in hooks:
            script_loader.called(
                hooks[script_loader.LOAD], self.file, Context(self.name, shared=rule.__dict__["shared_by_all"])
            )
        return rule

    def continues(self, old: Rule) -> bool:
        return False  # the file may have changed, and its `load` was called again

    def begin(self) -> dict[Any, Any]:
        shared: dict[Any, Any] = self.__dict__.get("shared_by_all", {})
        return shared

    def begin_session(self) -> dict[Any, Any]:
        return {}

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        hooks = self.hooks
        if not hooks:
            raise ValueError(f"{self.file} has not been loaded")
        hook = self.__dict__["hooks_by_method"].get(context.command.method.name) or hooks.get(script_loader.ANY)
        if hook is None:
            return Verdict(command=context.command)
        verdict = script_loader.called(
            hook, self.file, context.command, Context(self.name, context, memory.shared, memory.own)
        )
        return verdict_of(verdict, context.command, f"{self.file}:{hook.__code__.co_firstlineno}: `{hook.__name__}`")


def may_drop_deliveries(rule: Rule) -> bool:
    """Whether unacknowledged deliveries must be counted, since Python may drop a delivery without an answer."""
    deliveries = {"basic.deliver", "basic.get-ok"} & rule.matched
    return bool(deliveries if rule.methods is None else deliveries & rule.methods)


def verdict_of(returned: Any, command: Command, place: str) -> Verdict:
    """Return the verdict that a function at `place` has returned; raise `ScriptError` if it is none."""
    if returned is None:
        return Verdict(command=command)
    if not isinstance(returned, Verdict):
        raise script_loader.ScriptError(f"{place} returned a {type(returned).__name__}, not a Verdict or None")
    try:
        check_types(returned)
    except Unsendable as error:
        raise script_loader.ScriptError(f"{place}: {error}") from None
    return returned
