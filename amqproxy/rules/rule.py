"""What all rules share: a name, what they match, and how they decide."""

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
    """What a rule remembers, since it itself never changes. Both are what its `begin` and `begin_session` made.

    `shared` is of all sessions, `own` of one. Both outlive a reload in which the rule `continues` the old one.
    """

    __slots__ = ("own", "shared")

    def __init__(self, shared: Any, own: Any) -> None:
        self.shared = shared
        self.own = own


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="action", dict=True):
    """One rule of the config. Its action is its subclass, each in a file of its own.

    `when` is a CEL expression over the names in `matching.attributes`. In mode "shadow" it counts what it would do.
    """

    name: str
    match: Match = Match()
    when: str = ""
    mode: Literal["enforce", "shadow"] = "enforce"

    # Three properties: a subclass answers with a constant of the class, or by the rule's own keys.

    @property
    def needs(self) -> Stage:
        """How much of a command the action itself reads or changes, besides what `match` and `when` do."""
        return Stage.METHOD

    @property
    def is_constant(self) -> bool:
        """Do `decide` and `restore` come to the same for the same method of the same client, whenever and wherever?

        Then they are asked once.
        """
        return False

    @property
    def methods(self) -> frozenset[str] | None:
        """The methods that the action can do something about; None: all. Others are never shown to it."""
        return None

    @property
    def places(self) -> MatchedPlaces:
        """Where the names have to stand that `match` is about."""
        return MatchedPlaces.ANY

    @property
    def matched(self) -> frozenset[str]:
        """The methods that `match` can hold of, and the heartbeat."""
        return self.match.methods_in(self.places)

    def conditions(self) -> tuple[Condition, ...]:
        """What must hold of a command for the rule to be asked, but for its method and `when`."""
        return self.match.conditions(self.places)

    @property
    def renames(self) -> bool:
        """May another method go on than came? Then what the method says tells nothing early of the rules behind it."""
        return True

    @property
    def fails_open(self) -> bool:
        """Does a command pass on which the rule fails? So it is with those that only look; all others refuse it."""
        return False

    @property
    def shows(self) -> bool:
        """Does it show people what the command and the client say? Then it is given both as redactions leave them."""
        return False

    @property
    def may_make_anything(self) -> bool:
        """Is what it makes, such as a name, of any kind and length? Then it is tried whether that can be encoded.

        All other rules see to it themselves, and what each makes of a specimen is tried when the config is loaded.
        """
        return False

    @property
    def reads_unacked(self) -> bool:
        """Does it read `ChannelInfo.unacked`? That is counted only where a rule, or the `when` of one, does."""
        return False

    @property
    def acts_at_start(self) -> bool:
        """Does it act on a connection as such, and on none of its commands? Then `start` is asked, and `decide` never.

        That is as soon as `match` is known to hold: before the first byte, if it is about nothing that the client says
        later (user, vhost, client properties), else with connection.open-ok; once a session.
        """
        return False

    def resolved(self, resources: Resources) -> Rule:
        """The rule with what it takes from files and variables; done once, when the config is loaded.

        What it got is no part of its config: it is kept in the rule's `__dict__`, and neither dumped nor compared.
        `ValueError` for what is missing or wrong.
        """
        return self

    def expanded(self) -> tuple[Rule, ...]:
        """The rules that are asked in its place, in this order: the first that holds has its word, the others none.

        `match` and `when` hold for all of them.
        """
        return (self,)

    def begin(self) -> Any:
        """What the rule remembers of all sessions."""
        return None

    def begin_session(self) -> Any:
        """What the rule remembers of one session."""
        return None

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        """What is to become of a command for which the match and `when` hold. Whatever it raises is 541."""
        raise NotImplementedError

    def allowance(self, context: CommandContext, memory: RuleState) -> Credit | None:
        """What there may be left of for such commands to pass without a word of the rule's: they take one each of it,
        instead of having `decide` do so. None: it has to be asked.

        Only asked about what the method alone tells; what comes of it must not depend on the channel.
        """
        return None

    def restores(self, sender: Peer) -> frozenset[str]:
        """The methods of `sender` that may bring back names which this rule has changed in the other direction."""
        return frozenset()

    @property
    def only_takes_note(self) -> bool:
        """Does `restore` change nothing, and only count what comes back? Then it is asked in shadow too."""
        return False

    def restores_alike(self, sender: Peer) -> bool:
        """Does `restore` come to the same for the same method of `sender`, at any time?"""
        return self.is_constant

    @property
    def restoring_needs(self) -> Stage:
        """How much of a command `restore` reads or changes."""
        return Stage.METHOD

    def restore(self, context: CommandContext, memory: RuleState) -> Verdict:
        """The command with the names that its receiver knows; asked in reverse order, whatever `match` says."""
        return Verdict(command=context.command)

    def start(
        self, client: Client, memory: RuleState, now: float, random: Callable[[], float]
    ) -> tuple[Impairment, ...]:
        """What is done to the bytes of a connection from now on; see `acts_at_start` and `CommandContext`."""
        return ()

    # --- what a session had of a rule's is given back when it ends: the interceptor reports it

    def channel_closed(self, number: int, memory: RuleState) -> None:
        """The channel is no more on the client's leg, whoever closed it, and though it may never have opened."""

    def session_over(self, memory: RuleState) -> None:
        """The session is no more, however it ended. The last that the rule hears of it; told once."""

    def continues(self, old: Rule) -> bool:
        """After a reload: may it go on with what `old`, of the same name, remembers?"""
        return self == old
