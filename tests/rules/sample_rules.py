"""Small rules that decide something simple, for tests of the engine."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicDeliver
from amqproxy.amqp091.transitions import SERVER, Peer
from amqproxy.rules.context import CommandContext
from amqproxy.rules.rule import Cacheable, Reversible, Rule, RuleState, Stateful
from amqproxy.rules.verdict import Close, Verdict


class Deny(Rule, Cacheable, frozen=True, tag="deny"):
    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=None, close=Close(Scope.CHANNEL, 403, self.name), is_final=True)


class Rename(Rule, Cacheable, Reversible, frozen=True, tag="rename"):
    """Gives exchange another name, and the other way round what is delivered."""

    to: str

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        method = context.command.method
        changed = type(method)(**{f: getattr(method, f) for f in method.__struct_fields__} | {"exchange": self.to})
        return Verdict(command=context.command.altered(method=changed))

    def restores(self, sender: Peer) -> frozenset[str]:
        return frozenset({"basic.deliver"}) if sender is SERVER else frozenset()

    def restores_alike(self, sender: Peer) -> bool:
        return self.is_constant

    def restore(self, context: CommandContext, memory: RuleState) -> Verdict:
        method = context.command.method
        if method.exchange != self.to:
            return Verdict(command=context.command)
        fields = {f: getattr(method, f) for f in method.__struct_fields__}
        return Verdict(
            command=context.command.altered(method=BasicDeliver(**fields | {"exchange": self.match.exchange}))
        )


class RenameNow(Rename, frozen=True, tag="rename-now"):
    """As `Rename`, but to be asked each time."""

    is_constant = False


class EverySecond(Rule, Stateful, frozen=True, tag="every-second"):
    """Refuses every second time that it is asked in a session."""

    changes_method = False

    def begin_session(self) -> Any:
        return [0]

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        memory.own[0] += 1
        if memory.own[0] % 2:
            return Verdict(command=context.command)
        return Verdict(command=None, close=Close(Scope.CHANNEL, 406, "second"))


class Raising(Rule, frozen=True, tag="raising"):
    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        raise KeyError("no such thing")
