"""A list of who may do what, compiled to rules that allow and refuse."""

from __future__ import annotations

from typing import Annotated

import msgspec

from amqproxy.rules.access_list import parse
from amqproxy.rules.allow import Allow
from amqproxy.rules.refuse import Refuse
from amqproxy.rules.rule import Memory, Rule
from amqproxy.rules.seen import Seen
from amqproxy.rules.verdict import Verdict


class AccessList(Rule, frozen=True, tag="acl"):
    """Ask the `lines` in order: what the first that holds allows goes on to the next rule, what it denies is refused.

    What no line is about goes on. `code` and `text` are those of the refusal; `access_list` says how lines are written.
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

    def expanded(self) -> tuple[Rule, ...]:
        """A rule or more for each line."""
        rules: list[Rule] = []
        for line in parse(self.lines):
            for match in line.matches:
                name = f"{self.name}, line {line.number}"
                if line.does_allow:
                    rules.append(Allow(name=name, match=match, mode=self.mode))
                else:
                    rules.append(Refuse(name=name, match=match, mode=self.mode, code=self.code, text=self.text))
        return tuple(rules)

    def decide(self, seen: Seen, memory: Memory) -> Verdict:
        raise AssertionError("the rules of its lines are asked instead")
