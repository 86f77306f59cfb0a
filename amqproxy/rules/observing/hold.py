"""The `hold` action: holds a command until an operator releases it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.amqp091.transitions import HANDSHAKE
from amqproxy.rules import verdict
from amqproxy.rules.context import CommandContext
from amqproxy.rules.faults.trigger import Trigger
from amqproxy.rules.rule import Rule, RuleState, Stateful
from amqproxy.rules.units import duration
from amqproxy.rules.verdict import Stage, Verdict

_UNHELD = frozenset(
    (
        *("connection.close", "connection.close-ok", "channel.close", "channel.close-ok"),
        *(name for moves in HANDSHAKE.values() for _, name in moves),
    )
)
"""Methods that open or close connections and channels, which have their own timeouts."""


class Hold(Rule, Stateful, frozen=True, tag="hold"):
    """Hold a command, and the later commands of its channel, until it is released, edited or dropped.

    Without a release within `timeout` seconds, it passes or is refused. A message is held as a whole.
    After `count` commands of all connections, further ones pass.
    """

    timeout: Annotated[float, duration(gt=0, le=3600)] = 60.0
    on_timeout: Literal["pass", "refuse"] = "pass"
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None

    changes_method = False
    drops_confirms = True
    may_be_bypassed = True

    def __post_init__(self) -> None:
        matched = self.matched
        if not matched & self.methods:
            raise ValueError(f"{', '.join(sorted(matched)[:3])} cannot be held")

    @property
    def methods(self) -> frozenset[str]:
        return _METHODS

    @property
    def needs(self) -> Stage:
        return Stage.BODY

    @property
    def reads_unacked(self) -> bool:
        """An operator may drop a held delivery: acknowledgements of later ones must not cover it."""
        return not self.matched.isdisjoint(_DELIVERIES)

    def begin(self) -> Trigger:
        return Trigger()

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        occasions: Trigger = memory.shared
        if not occasions.is_due(context.now, context.random, count=self.count):
            return Verdict(command=context.command)
        hold = verdict.HoldAction(self.name, self.timeout, passes_at_timeout=self.on_timeout == "pass")
        return Verdict(command=context.command, hold=hold)


_DELIVERIES = frozenset({"basic.deliver", "basic.get-ok"})

_METHODS = frozenset(BY_NAME) - _UNHELD
