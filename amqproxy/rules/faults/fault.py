"""The `fault` action: which fault happens, to which commands, how often and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from amqproxy.amqp091.transitions import SERVER, Peer
from amqproxy.rules import units
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.faults.command_faults import AnyCommandFault, BlockFault, CancelFault, DropFault, ReorderFault
from amqproxy.rules.faults.stream_faults import AnyStreamFault, StreamFault
from amqproxy.rules.faults.trigger import Trigger
from amqproxy.rules.matching.match import HEARTBEAT
from amqproxy.rules.rule import ImpairsStream, Reversible, Rule, RuleState, SessionMemory
from amqproxy.rules.verdict import Answer, Impairment, Stage, Verdict

_DELIVERIES = frozenset({"basic.deliver", "basic.get-ok"})

MAX_CANCELLED = 10_000
"""Maximum number of cancelled consumers per session whose late deliveries are withheld from the client."""


class FaultState(SessionMemory):
    """State of a fault in one session."""

    __slots__ = ("blocked_until", "cancelled", "is_impaired", "occasions")

    def __init__(self) -> None:
        self.occasions = Trigger()
        self.is_impaired = False
        self.blocked_until = float("-inf")
        self.cancelled: dict[tuple[int, str], None] = {}
        """Cancelled consumers, by channel and tag: the latest `MAX_CANCELLED`."""

    def cancel(self, channel: int, tag: str) -> None:
        """Note that a consumer receives nothing more."""
        self.cancelled[channel, tag] = None
        if len(self.cancelled) > MAX_CANCELLED:
            del self.cancelled[next(iter(self.cancelled))]

    def channel_closed(self, number: int) -> None:
        for consumer in [each for each in self.cancelled if each[0] == number]:
            del self.cancelled[consumer]


class Fault(Rule, Reversible, ImpairsStream, frozen=True, tag="fault"):
    """Apply `fault` to matching commands: with `probability`, from the `nth` on, `count` times, for `duration`.

    `nth` starts at 1, and makes the default of `count` 1, unless there is `every`: then the fault happens to each
    `every`-th command, by default beginning with the first `every`-th. Occasions are counted for each connection, or
    for all. A fault of the byte stream begins with the connection, or with the first matching command if `match` is
    about commands; it happens once per connection and lasts for `duration` seconds. Command faults happen for
    `duration` seconds after the first match.
    """

    fault: AnyStreamFault | AnyCommandFault
    probability: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None
    nth: Annotated[int, msgspec.Meta(ge=1)] | None = None
    every: Annotated[int, msgspec.Meta(ge=1)] | None = None
    duration: Annotated[float, units.duration(gt=0)] | None = None
    per: Literal["connection", "all"] = "connection"

    changes_method = False
    may_be_bypassed = True

    def __post_init__(self) -> None:
        methods = self.methods
        if methods is not None and not methods & self.matched:
            raise ValueError(f".match: this fault applies only to {', '.join(sorted(methods)[:5])}")

    @property
    def methods(self) -> frozenset[str] | None:
        return None if isinstance(self.fault, StreamFault) else self.fault.methods

    @property
    def needs(self) -> Stage:
        return Stage.METHOD if isinstance(self.fault, StreamFault) else self.fault.needs

    @property
    def reads_unacked(self) -> bool:
        """Whether deliveries must be counted: an acknowledgement may cover earlier deliveries, except those that were
        lost.
        """
        fault = self.fault
        is_lost = isinstance(fault, DropFault) and fault.told == "nothing" and not self.matched.isdisjoint(_DELIVERIES)
        return is_lost or isinstance(fault, ReorderFault)

    @property
    def drops_confirms(self) -> bool:
        return isinstance(self.fault, DropFault)

    @property
    def acts_at_start(self) -> bool:
        is_about_commands = self.match.method is not None or HEARTBEAT not in self.matched
        return isinstance(self.fault, StreamFault) and not is_about_commands and self.match.sender is None

    def begin(self) -> Trigger:
        return Trigger()

    def begin_session(self) -> FaultState:
        return FaultState()

    def start(
        self, client: Client, memory: RuleState, now: float, random: Callable[[], float]
    ) -> tuple[Impairment, ...]:
        if not isinstance(self.fault, StreamFault) or not self._is_due(memory, now, random):
            return ()
        memory.own.is_impaired = True
        return self.fault.impairments(self.duration, self.name)

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        trouble: FaultState = memory.own
        if (
            trouble.is_impaired
            or context.now < trouble.blocked_until
            or not self._is_due(memory, context.now, context.random)
        ):
            return Verdict(command=context.command)
        if isinstance(self.fault, StreamFault):
            trouble.is_impaired = True
            return Verdict(command=context.command, impairments=self.fault.impairments(self.duration, self.name))
        if isinstance(self.fault, BlockFault):
            trouble.blocked_until = context.now + self.fault.seconds
        if isinstance(self.fault, CancelFault):
            trouble.cancel(context.command.channel, context.command.method.consumer_tag)
        return self.fault.happen(context)

    def _is_due(self, memory: RuleState, now: float, random: Callable[[], float]) -> bool:
        occasions: Trigger = memory.shared if self.per == "all" else memory.own.occasions
        return occasions.is_due(
            now,
            random,
            probability=self.probability,
            nth=self.nth or self.every or 1,
            every=self.every or 1,
            count=1 if self.nth is not None and self.every is None and self.count is None else self.count,
            duration=None if isinstance(self.fault, StreamFault) else self.duration,
        )

    # --- withheld deliveries of a cancelled consumer

    def restores(self, sender: Peer) -> frozenset[str]:
        if sender is SERVER and isinstance(self.fault, CancelFault):
            return frozenset({"basic.deliver", "basic.consume-ok"})
        return frozenset()

    def restore(self, context: CommandContext, memory: RuleState) -> Verdict:
        consumer = (context.command.channel, context.command.method.consumer_tag)
        if consumer in memory.own.cancelled:
            if context.command.method.name == "basic.deliver":
                return Verdict(command=None, answer=Answer.REQUEUE)
            del memory.own.cancelled[consumer]
        return Verdict(command=context.command)
