"""A list of who may do what, compiled to rules that allow and refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Annotated

import msgspec

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.rules.access.access_list import Line, parse
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.attributes import AttributeSource
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.match import Match
from amqproxy.rules.matching.operations import METHODS, copies, falls_back, operations
from amqproxy.rules.rule import Rule, RuleState
from amqproxy.rules.verdict import Stage, Verdict

PUBLISH = "basic.publish"

MAX_CACHED = 4096
"""Decisions on publishes that a list caches."""


class AccessList(Rule, frozen=True, tag="acl"):
    """Ask the `lines` in order: what the first that holds allows goes on to the next rule, what it denies is refused.

    What no line is about goes on. A command that does several things is refused if one of them is denied. `code` and
    `text` are those of the refusal; `access_list` has the syntax of lines.
    """

    lines: str
    code: Annotated[int, msgspec.Meta(ge=200, le=999)] | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        try:
            parse(self.lines)
        except ValueError as error:
            raise ValueError(f".lines: {error}") from None
        self.expanded()

    @cached_property
    def parsed(self) -> tuple[Line, ...]:
        return parse(self.lines)

    def expanded(self) -> tuple[Rule, ...]:
        """The rules that are asked in its place: for each line, one about publishes, which may have to wait for the
        header, and one about everything else.

        The first that holds decides, and the others are not asked. `match` and `when` hold for all of them.
        """
        rules: list[Rule] = []
        for place, line in enumerate(self.parsed):
            methods = frozenset(name for act in line.acts for name in METHODS[act])
            for names in (methods & {PUBLISH}, methods - {PUBLISH}):
                if names:
                    rules.append(self._part(place, line, tuple(sorted(names))))
        return tuple(rules)

    def _part(self, place: int, line: Line, methods: tuple[str, ...]) -> Rule:
        name, match = f"{self.name}, line {line.number}", Match(method=methods, **line.who)  # type: ignore[arg-type]
        part: Rule
        if line.does_allow:
            part = _Allowing(name=name, match=match, mode=self.mode)
        else:
            part = _Denying(name=name, match=match, mode=self.mode, code=self.code, text=self.text)
        part.__dict__["about_operations"] = tuple(self._conditions(place, line, methods == (PUBLISH,)))
        return part

    def _conditions(self, place: int, line: Line, is_publish: bool) -> Iterator[Condition]:
        """The line decides about a command: a condition for each of its objects, and one that it is this line."""
        for key in line.objects:
            yield Condition(AttributeSource.METHOD, Stage.METHOD, frozenset({key}), _concerning(line, key, is_publish))
        reads = frozenset(line.objects) or frozenset({"method"})
        needs_header = is_publish and (
            any(each.is_keyed for each in self.parsed[: place + 1])
            or any("queue" in each.objects for each in self.parsed if each.is_keyed)
        )
        source, stage = (
            (AttributeSource.CONTENT, Stage.HEADER) if needs_header else (AttributeSource.METHOD, Stage.METHOD)
        )
        yield Condition(
            source, stage, reads, lambda context: self.deciding(context) == place, reads_header_names=needs_header
        )

    def deciding(self, context: CommandContext) -> int | None:
        """The place of the line that decides: the first that denies anything that is done, or else the last that allows
        something; None where none is about it."""
        command, client = context.command, context.client
        if command.index != BasicPublish.index or copies(command) or command.properties.reply_to:
            return self._decided(context)
        method = command.method
        key = (client.user, client.address, client.vhost, method.exchange, method.routing_key, falls_back(method))
        known = self._known
        if key not in known:
            if len(known) >= MAX_CACHED:
                known.clear()
            known[key] = self._decided(context)
        return known[key]

    @cached_property
    def _known(self) -> dict[tuple[str | bool, ...], int | None]:
        """The lines that have decided about plain publishes, by all that the decision depends on."""
        return {}

    def _decided(self, context: CommandContext) -> int | None:
        allowing = denying = -1
        lines = [(place, line) for place, line in enumerate(self.parsed) if line.is_for(context)]
        for operation in operations(context.command):
            for place, line in lines:
                if line.holds_of(operation):
                    if line.does_allow:
                        allowing = max(allowing, place)
                    elif denying < 0 or place < denying:
                        denying = place
                    break
        if denying >= 0:
            return denying
        return allowing if allowing >= 0 else None

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        raise AssertionError("the rules of its lines are asked instead")


def parts_of(rule: Rule) -> tuple[Rule, ...]:
    """The rules that are asked in the place of `rule`: those of its lines, or itself."""
    return rule.expanded() if isinstance(rule, AccessList) else (rule,)


def deciding_condition(part: Rule) -> Condition | None:
    """The condition that a line of an access list is the deciding one; None for other rules."""
    about_operations: tuple[Condition, ...] = part.__dict__.get("about_operations", ())
    return about_operations[-1] if about_operations else None


class _Allowing(Allow, frozen=True, tag="allowing line"):
    def conditions(self) -> tuple[Condition, ...]:
        return _of_part(self)


class _Denying(Refuse, frozen=True, tag="denying line"):
    def conditions(self) -> tuple[Condition, ...]:
        return _of_part(self)


def _of_part(part: Rule) -> tuple[Condition, ...]:
    about_operations: tuple[Condition, ...] = part.__dict__["about_operations"]
    return (*part.match.conditions(), *about_operations)


def _concerning(line: Line, key: str, is_publish: bool) -> Callable[[CommandContext], bool]:
    """May anything that a command does be what the line is about, judging by one of its objects?"""
    if is_publish and "queue" in line.objects:
        return lambda context: True  # any may name one in its header
    keys = {key} if key != "routing_key" else {"exchange"} if is_publish else {"exchange", "routing_key"}
    alone = msgspec.structs.replace(line, objects={each: line.objects[each] for each in keys & line.objects.keys()})

    def holds(context: CommandContext) -> bool:
        return any(alone.holds_of(operation) for operation in operations(context.command))

    return holds
