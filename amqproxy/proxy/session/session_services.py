"""Services shared by the sessions of one proxy."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.configuration.config import Limits
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.session.rule_log import RuleLog
from amqproxy.proxy.session.tap_budget import TapBudget
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.proxy.turns import TurnQueue
from amqproxy.pump.pumps import Pumps
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.topology.observed_topology import ObservedTopology


class SessionServices:
    """Limits, metrics, budgets, turn queue and pumps of all sessions.

    Clients' declarations are recorded in `topology`, if there is one. `pumps`, if any, relay traffic that needs no
    inspection; `let_go_of_view` discards the rebuilt parts of the parked session that was inspected last.
    """

    __slots__ = (
        "brake",
        "let_go_of_view",
        "limits",
        "memory",
        "metrics",
        "mirrors",
        "pumps",
        "rule_log",
        "state_turns",
        "tap_budget",
        "topology",
        "turns",
    )

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        *,
        mirrors: Mirrors | None = None,
        memory: MemoryBudget | None = None,
        rule_log: RuleLog | None = None,
        tap_budget: TapBudget | None = None,
        brake: TapBrake | None = None,
        topology: ObservedTopology | None = None,
        pumps: Pumps | None = None,
    ) -> None:
        self.limits = limits
        self.metrics = metrics
        self.mirrors = mirrors
        self.memory = memory or MemoryBudget(share_limit=SESSION_MEMORY)
        self.rule_log = rule_log
        self.tap_budget = tap_budget
        self.brake = brake
        self.topology = topology
        self.pumps = pumps
        self.turns = TurnQueue()
        self.state_turns = TurnQueue()
        """Turns in which sessions show their states to taps that have joined: all may have to at once."""
        self.let_go_of_view: Callable[[], None] | None = None
