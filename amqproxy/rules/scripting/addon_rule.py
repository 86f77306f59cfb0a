"""Rules of addons: actions that other packages add, by entry points in the group `amqproxy.rules`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from amqproxy.amqp091.commands import Command
from amqproxy.rules.context import CommandContext
from amqproxy.rules.rule import Rule, RuleState, Stateful
from amqproxy.rules.scripting import script_loader
from amqproxy.rules.scripting.api import Context
from amqproxy.rules.scripting.script import STAGES, may_drop_deliveries, verdict_of
from amqproxy.rules.verdict import Stage, Verdict


class AddonRule(Rule, Stateful, frozen=True):
    """Rule of an addon: its keys are those of the config, and `act` decides as a script's function does.

        class Stamp(AddonRule, frozen=True, tag="stamp"):
            header: str = "x-received"
            methods = frozenset({"basic.publish"})
            reads = "header"

            def act(self, command: Command, context: Context) -> Verdict | None: ...

    `methods` are those that `act` is called for, by default all; `reads` is the part of a message that it needs.
    """

    reads: ClassVar[Literal["method", "header", "body"]] = "method"

    makes_unchecked_values = True
    drops_confirms = True

    def act(self, command: Command, context: Context) -> Verdict | None:
        """Return the verdict on a command, or `None` to pass it; any exception refuses it with 541."""
        raise NotImplementedError

    @property
    def needs(self) -> Stage:
        return STAGES[self.reads]

    @property
    def reads_unacked(self) -> bool:
        return may_drop_deliveries(self)

    def begin(self) -> dict[Any, Any]:
        return {}

    def begin_session(self) -> dict[Any, Any]:
        return {}

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        code = type(self).act.__code__
        file = code.co_filename
        given = Context(self.name, context, memory.shared, memory.own)
        verdict = script_loader.called(self.act, file, context.command, given)
        return verdict_of(verdict, context.command, f"{file}:{code.co_firstlineno}: `act`")
