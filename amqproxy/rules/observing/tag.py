"""The `tag` action: tags commands, so that records and logs can be searched."""

from __future__ import annotations

from typing import Annotated

import msgspec

from amqproxy.rules.context import CommandContext
from amqproxy.rules.rule import Cacheable, Rule, RuleState
from amqproxy.rules.verdict import Verdict

TagName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$")]


class Tag(Rule, Cacheable, frozen=True, tag="tag"):
    """Tag a command with these words."""

    tags: Annotated[tuple[TagName, ...], msgspec.Meta(min_length=1)]

    changes_method = False
    fails_open = True

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=context.command, tags=self.tags)
