"""What a rule is: its config and how it decides; and what else it may be.

Every rule is a `Rule`. One that is more than that also extends the classes below that describe it: `Cacheable`,
`Stateful`, `Reversible`, `ImpairsStream`. The engine asks once which of them a rule is, when it compiles it.
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
    """What a rule remembers, since it itself never changes: what its `begin` and `begin_session` returned.

    `shared` belongs to all sessions, `own` to one. Both outlive a reload in which the rule `continues` the old one.
    """

    __slots__ = ("own", "shared")

    def __init__(self, shared: Any, own: Any) -> None:
        self.shared = shared
        self.own = own


class SessionMemory:
    """What a rule remembers of one session, where some of it ends with a channel or with the session."""

    __slots__ = ()

    def channel_closed(self, number: int) -> None:
        """The channel no longer exists on the client's leg, whichever side closed it; it may never have opened."""

    def session_over(self) -> None:
        """The session has ended. Called once, and nothing is called after it."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="action", dict=True):
    """One rule of the config. Its action is its subclass, each in a file of its own.

    `when` is a CEL expression over the names in `matching.attributes`. In mode "shadow" it counts what it would do.
    """

    name: str
    match: Match = Match()
    when: str = ""
    mode: Literal["enforce", "shadow"] = "enforce"

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        """The verdict on a command for which `match` and `when` hold. Any exception refuses the command with 541."""
        raise NotImplementedError

    # Properties: a subclass overrides them with a constant of the class, or computes them from the rule's own keys.

    @property
    def needs(self) -> Stage:
        """How much of a command the action itself reads or changes, besides what `match` and `when` read."""
        return Stage.METHOD

    @property
    def methods(self) -> frozenset[str] | None:
        """The methods that the action can do something about; None: all. `decide` is not called for others."""
        return None

    @property
    def places(self) -> MatchedPlaces:
        """Where in a command `match` looks for names."""
        return MatchedPlaces.ANY

    @property
    def matched(self) -> frozenset[str]:
        """The methods that `match` can hold for, and the heartbeat."""
        return self.match.methods_in(self.places)

    def conditions(self) -> tuple[Condition, ...]:
        """What must hold for a command before `decide` is called, besides its method and `when`."""
        return self.match.conditions(self.places)

    @property
    def changes_method(self) -> bool:
        """May the verdict have another method? Then the received one does not determine which later rules match."""
        return True

    @property
    def fails_open(self) -> bool:
        """Does a command pass when the rule fails? True for rules that only observe; all others refuse it."""
        return False

    @property
    def sees_redacted(self) -> bool:
        """Does it show people the command and the client? Then it gets both as redactions leave them."""
        return False

    @property
    def makes_unchecked_values(self) -> bool:
        """May its verdicts contain values of any kind and length? Then each is checked before it is encoded.

        All other rules check their values themselves, and are tried on a specimen when the config is loaded.
        """
        return False

    @property
    def reads_unacked(self) -> bool:
        """Does it read `ChannelInfo.unacked`? That is counted only where a rule, or the `when` of one, reads it."""
        return False

    @property
    def drops_confirms(self) -> bool:
        """May it drop a basic.ack or basic.nack of the broker? Only where a rule may are confirms numbered from the
        first on, so that no later one stands for it."""
        return False

    def resolved(self, resources: Resources) -> Rule:
        """The rule with what it reads from files and variables; called once, when the config is loaded.

        What it read is not part of its config: it is kept in the rule's `__dict__`, and neither dumped nor compared.
        `ValueError` for what is missing or wrong.
        """
        return self


class Cacheable:
    """A rule whose decision on a method is valid for all equal methods of the same client."""

    __slots__ = ()

    @property
    def is_constant(self) -> bool:
        """Is it valid always? Otherwise only while the `allowance` lasts."""
        return True

    def allowance(self, context: CommandContext, memory: RuleState) -> Credit | None:
        """The number of such commands that may still pass without a call of `decide`; each takes one from it.

        None: `decide` is called for each. `context` has no more than the method; the result must not depend on the
        channel.
        """
        return None


class Stateful:
    """A rule that remembers something, in a `RuleState`."""

    __slots__ = ()

    def begin(self) -> Any:
        """What the rule remembers of all sessions."""
        return None

    def begin_session(self) -> Any:
        """What the rule remembers of one session; a `SessionMemory`, if some of it ends with a channel."""
        return None

    def continues(self, old: Rule) -> bool:
        """After a reload: may it take over what `old`, of the same name, remembers?"""
        other: object = old  # or mypy takes it that a mixin never equals a rule
        return self == other


class Reversible(Stateful):
    """A rule that later receives commands which refer to what it changed or counted, whether or not `match` holds."""

    __slots__ = ()

    only_counts = False
    """Does `restore` change nothing? Then it is called in shadow mode too."""

    def restores(self, sender: Peer) -> frozenset[str]:
        """The methods of `sender` for which `restore` is called."""
        raise NotImplementedError

    def restores_alike(self, sender: Peer) -> bool:
        """Does `restore` always return the same for equal methods of `sender`?"""
        return False

    @property
    def restoring_needs(self) -> Stage:
        """How much of a command `restore` reads or changes."""
        return Stage.METHOD

    def restore(self, context: CommandContext, memory: RuleState) -> Verdict:
        """The command with the names that its receiver knows. For commands of the server, in reverse order of rules."""
        raise NotImplementedError


class ImpairsStream:
    """A rule that may impair the byte stream of a connection from its start."""

    __slots__ = ()

    @property
    def acts_at_start(self) -> bool:
        """Does it act on a connection as a whole? Then `start` is called, once a session, and `decide` never.

        It is called as soon as `match` is known to hold: before the first byte, if it reads nothing that the client
        sends later (user, vhost, client properties), else with connection.open-ok.
        """
        return True

    def start(
        self, client: Client, memory: RuleState, now: float, random: Callable[[], float]
    ) -> tuple[Impairment, ...]:
        """What impairs the bytes of a connection from now on; for `now` and `random` see `CommandContext`."""
        raise NotImplementedError


def initial_state(rule: Rule) -> RuleState:
    """The state of a rule in the first session."""
    return RuleState(rule.begin(), rule.begin_session()) if isinstance(rule, Stateful) else RuleState(None, None)
