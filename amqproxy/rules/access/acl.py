"""Access lists, compiled to rules that allow and refuse."""

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
"""Number of publish decisions that a list caches."""


class AccessList(Rule, frozen=True, tag="acl"):
    """Evaluate the lines in order: the first that holds passes the command to the next rule, or refuses it.

    A command that no line is about goes to the next rule. A command that consists of several operations is refused if
    one of them is denied. `code` and `text` are the reply code and text of a refusal; `access_list` has the syntax of
    lines.
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
        """Return the rules that replace the list: at most two per line.

        Publishes have a separate rule, since it may have to wait for the header.

        The first rule that holds decides and ends the list. `match` and `when` apply to all of them.
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
        """Yield the conditions under which the line decides: one per object, and one that no earlier line decides."""
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
        """Return the index of the deciding line: the first that denies an operation, else the last that allows one.

        `None` if no line is about the command.
        """
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
        """Deciding lines of plain publishes, by every input of the decision."""
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
    """Return the rules that are evaluated instead of `rule`: the rules of its lines, or itself."""
    return rule.expanded() if isinstance(rule, AccessList) else (rule,)


def deciding_condition(part: Rule) -> Condition | None:
    """Return the condition that a line is the deciding one of its access list; `None` for other rules."""
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
    """Return a test whether one object of a command may be named by the line."""
    if is_publish and "queue" in line.objects:
        return lambda context: True  # any publish may name a queue in its header
    keys = {key} if key != "routing_key" else {"exchange"} if is_publish else {"exchange", "routing_key"}
    alone = msgspec.structs.replace(line, objects={each: line.objects[each] for each in keys & line.objects.keys()})

    def holds(context: CommandContext) -> bool:
        return any(alone.holds_of(operation) for operation in operations(context.command))

    return holds
