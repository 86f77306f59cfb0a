"""Interfaces of rules: configuration, decision, and optional abilities.

Every rule is a `Rule`. A rule with further abilities also extends the classes that describe them: `Cacheable`,
`Stateful`, `Reversible`, `ImpairsStream`. The engine checks these when it compiles a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from amqproxy.amqp091.pass_cache import Credit
from amqproxy.amqp091.transitions import Peer
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.match import Match, MatchedPlaces
from amqproxy.rules.resources import Resources
from amqproxy.rules.verdict import Impairment, Stage, Verdict


class RuleState:
    """State of a rule, which is itself immutable: the results of its `begin` and `begin_session`.

    `shared` is common to all sessions, `own` belongs to one. Both survive a reload in which the rule `continues` the
    old one.
    """

    __slots__ = ("own", "shared")

    def __init__(self, shared: Any, own: Any) -> None:
        self.shared = shared
        self.own = own


class SessionMemory:
    """Session state of a rule, some of which ends with a channel or with the session."""

    __slots__ = ()

    def channel_closed(self, number: int) -> None:
        """End the state of a channel closed on the client's leg by either side; the channel may never have opened."""

    def session_over(self) -> None:
        """End the session state. Called once, as the last call."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="action", dict=True):
    """One rule of the configuration; each action is a subclass in its own file.

    `when` is a CEL expression over the names in `matching.attributes`. In mode "shadow", the rule only counts its
    effects.
    """

    name: str
    match: Match = Match()
    when: str = ""
    mode: Literal["enforce", "shadow"] = "enforce"

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        """Return the verdict on a matching command; any exception refuses the command with 541."""
        raise NotImplementedError

    # Properties: a subclass overrides them with a class constant, or computes them from the rule's own keys.

    @property
    def needs(self) -> Stage:
        """Part of a command that the action itself reads or changes, besides that of `match` and `when`."""
        return Stage.METHOD

    @property
    def methods(self) -> frozenset[str] | None:
        """Methods that the action applies to; `None`: all. `decide` is not called for others."""
        return None

    @property
    def places(self) -> MatchedPlaces:
        """Places in a command where `match` looks for names."""
        return MatchedPlaces.ANY

    @property
    def matched(self) -> frozenset[str]:
        """Methods, including the heartbeat, that `match` can hold for."""
        return self.match.methods_in(self.places)

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions for calling `decide`, besides the method and `when`."""
        return self.match.conditions(self.places)

    @property
    def changes_method(self) -> bool:
        """Whether the verdict may have another method, so that the received one does not determine which later rules
        match.
        """
        return True

    @property
    def fails_open(self) -> bool:
        """Whether a command passes if the rule fails: true for rules that only observe; all others refuse it."""
        return False

    @property
    def may_be_bypassed(self) -> bool:
        """Whether clients whose protocol is not decoded, such as AMQP 1.0, may pass without the rule: true for rules
        that only observe, and for faults and holds, which are for debugging.
        """
        return self.fails_open

    @property
    def sees_redacted(self) -> bool:
        """Whether it shows people the command and the client, which it then receives redacted."""
        return False

    @property
    def makes_unchecked_values(self) -> bool:
        """Whether its verdicts may contain values of any type and length, so that each is checked before it is encoded.

        All other rules check their values themselves, and are tried on a specimen when the configuration is loaded.
        """
        return False

    @property
    def reads_unacked(self) -> bool:
        """Whether it reads `ChannelInfo.unacked`, which is counted only if a rule or its `when` reads it."""
        return False

    @property
    def drops_confirms(self) -> bool:
        """Whether it may drop the broker's basic.ack or basic.nack.

        Only then are confirms numbered from the first on, so that no later one stands for a dropped one.
        """
        return False

    def resolved(self, resources: Resources) -> Rule:
        """Return the rule with the values that it reads from files and variables; called once, at load.

        These values are kept in the rule's `__dict__`, and are neither dumped nor compared. Raise `ValueError` for
        missing or invalid ones.
        """
        return self


class Cacheable:
    """A rule whose decision on a method is valid for all equal methods of the same client."""

    __slots__ = ()

    @property
    def is_constant(self) -> bool:
        """Whether the decision is always valid; otherwise only while the `allowance` lasts."""
        return True

    @property
    def allowed_body(self) -> int | None:
        """Body size in bytes up to which the rule has no effect; `None` if the size does not tell."""
        return None

    def allowance(self, context: CommandContext, memory: RuleState) -> Credit | None:
        """Return the number of commands that may pass without a call of `decide`; each takes one.

        `None`: `decide` is called for each. `context` has only the method; the result must not depend on the channel.
        """
        return None


class Stateful:
    """A rule with state, kept in a `RuleState`."""

    __slots__ = ()

    def begin(self) -> Any:
        """Return the initial state for all sessions together."""
        return None

    def begin_session(self) -> Any:
        """Return the initial state for one session; a `SessionMemory` if some of it ends with a channel."""
        return None

    def continues(self, old: Rule) -> bool:
        """Whether, after a reload, the rule takes over the state of `old`, which has the same name."""
        other: object = old  # mypy infers that a mixin never equals a rule
        return self == other


class Reversible(Stateful):
    """A rule that later receives commands that refer to its changes or counts, even if `match` does not hold."""

    __slots__ = ()

    only_counts = False
    """Whether `restore` changes nothing, and is called in shadow mode too."""

    def restores(self, sender: Peer) -> frozenset[str]:
        """Return the methods of `sender` for which `restore` is called."""
        raise NotImplementedError

    def restores_alike(self, sender: Peer) -> bool:
        """Whether `restore` returns the same for equal methods of `sender`."""
        return False

    @property
    def restoring_needs(self) -> Stage:
        """Part of a command that `restore` reads or changes."""
        return Stage.METHOD

    def restore(self, context: CommandContext, memory: RuleState) -> Verdict:
        """Return the command with its receiver's names; rules are called in reverse order for the server's commands."""
        raise NotImplementedError


class ImpairsStream:
    """A rule that may impair the byte stream of a connection from its start."""

    __slots__ = ()

    @property
    def acts_at_start(self) -> bool:
        """Whether it acts on a connection as a whole: then `start` is called once a session, and `decide` never.

        `start` is called as soon as `match` is known to hold: before the first byte if it reads nothing that the client
        sends later (user, vhost, client properties), else with connection.open-ok.
        """
        return True

    def start(
        self, client: Client, memory: RuleState, now: float, random: Callable[[], float]
    ) -> tuple[Impairment, ...]:
        """Return the impairments of a connection from now on; for `now` and `random` see `CommandContext`."""
        raise NotImplementedError


def initial_state(rule: Rule) -> RuleState:
    """Return the state of a rule in the first session."""
    return RuleState(rule.begin(), rule.begin_session()) if isinstance(rule, Stateful) else RuleState(None, None)
